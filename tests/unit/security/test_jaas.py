"""JAAS strings: what is read, what is refused, and that nothing of them is repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.jaas import (
    OAUTH_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasProblem,
    login_module,
    parse_jaas,
)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN_MODULE} required;", {}),
        (f'{PLAIN_MODULE} required username="a" password="b";', {"username": "a", "password": "b"}),
        (
            f"{PLAIN_MODULE}\n  Required\n  username='a'\n  password=b\n;",
            {"username": "a", "password": "b"},
        ),
        (f'{PLAIN_MODULE} optional user_a-b.c="x y;z=";', {"user_a-b.c": "x y;z="}),
        (f'{PLAIN_MODULE} required "user_ü"="x";', {"user_ü": "x"}),
        (rf'{PLAIN_MODULE} required password="a\"b\\c\t\101";', {"password": 'a"b\\c\tA'}),
        (f"{PLAIN_MODULE} required password='a\"b';", {"password": 'a"b'}),
        (f'{PLAIN_MODULE} /* why */ required // not\n password="//x /*";', {"password": "//x /*"}),
        (f"{PLAIN_MODULE} required user_1=123;", {"user_1": "123"}),
        (f'{PLAIN_MODULE} required password="";', {"password": ""}),
    ],
)
def test_strings_are_read_as_kafka_reads_them(text: str, options: dict[str, str]) -> None:
    (module,) = parse_jaas(text)
    assert module.name == PLAIN_MODULE
    assert module.options == options


def test_one_string_may_hold_several_modules() -> None:
    text = f'{SCRAM_MODULE} required username="a" password="b"; {OAUTH_MODULE} required ;'
    scram = login_module(text, "SCRAM-SHA-512")
    assert scram is not None
    assert scram.options == {"username": "a", "password": "b"}
    assert login_module(text, "PLAIN") is None
    oauth = login_module(text, "OAUTHBEARER")
    assert oauth is not None
    assert oauth.options == {}
    with pytest.raises(JaasProblem, match="more than once"):
        login_module(text + text, "SCRAM-SHA-256")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "hunter2",
        "hunter2;",
        "com.sun.security.auth.module.JndiLoginModule required;",
        f"{PLAIN_MODULE}",
        f"{PLAIN_MODULE};",
        f"{PLAIN_MODULE} hunter2;",
        f"{PLAIN_MODULE} required",
        f'{PLAIN_MODULE} required password="hunter2"',
        f'{PLAIN_MODULE} required password="hunter2',
        f"{PLAIN_MODULE} required password=hunter2, username=x;",
        f'{PLAIN_MODULE} required password "hunter2";',
        f"{PLAIN_MODULE} required password=;",
        f'{PLAIN_MODULE} required ="hunter2";',
        f'{PLAIN_MODULE} required password="hunter2" password="hunter2";',
        f'{PLAIN_MODULE} required password="hunter2"; hunter2',
        f"{PLAIN_MODULE} required /* hunter2",
        f'{PLAIN_MODULE} required password="hunter2\nx";',
    ],
)
def test_all_else_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(JaasProblem) as caught:
        parse_jaas(text)
    assert "hunter2" not in str(caught.value)
    assert "Jndi" not in str(caught.value)


def test_what_was_read_does_not_show_secrets() -> None:
    (module,) = parse_jaas(f'{PLAIN_MODULE} required password="hunter2";')
    assert "hunter2" not in repr(module)


@given(st.text(alphabet=st.sampled_from("ab=;\"'\\/* \n\0ü" + PLAIN_MODULE), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_jaas(f"{PLAIN_MODULE} required {text}")
    except JaasProblem as problem:
        assert str(problem)
