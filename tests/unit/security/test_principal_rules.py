"""ssl.principal.mapping.rules: what each makes of a name was seen with Kafka's own mapper."""

from __future__ import annotations

import time

import pytest

from penstock.security.principal_rules import PrincipalRules

DN = "CN=kafka-1.Example.com,OU=Data,O=Example Inc,C=DE"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", DN),
        (r"RULE:^CN=(.*?),.*$/$1/", "kafka-1.Example.com"),
        (r"RULE:^CN=(.*?),.*$/$1/L", "kafka-1.example.com"),
        (r"RULE:^CN=(.*?),.*$/$1/U", "KAFKA-1.EXAMPLE.COM"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2/L", "kafka-1.example.com@data"),
        (r"RULE:^CN=Nobody.*$/x/, RULE:^CN=(.*?),OU=Data.*$/$1/, DEFAULT", "kafka-1.Example.com"),
        (r"RULE:^CN=Nobody.*$/x/,DEFAULT", DN),
        (r"RULE:^CN=Nobody.*$/x/", None),
        (r"RULE:^CN=(.*?),.*$/$1@$4/", "kafka-1.Example.com@$4"),
        (r"RULE:^CN=(.*?),.*$/$12/", "kafka-1.Example.com2"),
        (r"RULE:^CN=(.*?),.*$/\$$1/", "$kafka-1.Example.com"),
        (r"RULE:^CN=(.*?),.*$/$0/", DN),
        (r"RULE:^CN=(.*?),.*C=(..)$/svc\/$1/", "svc/kafka-1.Example.com"),
        # Every place that fits is replaced: with such a pattern, the end fits once more.
        (r"RULE:.*/x/", "xx"),
        # The whole name has to fit, not only its start.
        (r"RULE:CN=kafka-1/x/", None),
    ],
)
def test_the_first_rule_that_fits_decides(rules: str, expected: str | None) -> None:
    assert PrincipalRules(rules).name_of(DN) == expected


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("", "no rule lets nobody in"),
        ("nonsense", "neither DEFAULT nor RULE"),
        ("RULE:^CN=(.*)$/$1", "neither DEFAULT nor RULE"),
        ("RULE:^CN=(.*)$/$1/X", "comma or the end"),
        ("DEFAULT RULE:a/b/", "comma or the end"),
        ("RULE:^CN=(?=x).*$/x/", "cannot be used"),
        ("RULE:^CN=((.*$/x/", "cannot be used"),
        ("RULE:^CN=.*$/$1/", "pattern without groups"),
        ("RULE:^CN=(.*)$/${name}/", "without a number"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_the_reason(rules: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PrincipalRules(rules)


def test_a_name_made_to_keep_the_pattern_busy_does_not() -> None:
    rules = PrincipalRules(r"RULE:^CN=((a+)+)+$/$1/")
    began = time.perf_counter()
    assert rules.name_of("CN=" + "a" * 5000 + "!") is None
    assert time.perf_counter() - began < 1.0
