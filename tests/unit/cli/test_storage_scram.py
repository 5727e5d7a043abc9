"""The first users of a cluster, as `storage format --add-scram` takes them."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from penstock.cli.failure import Failure
from penstock.cli.storage_scram import credentials_of
from penstock.metadata.scram import SHA_256, SHA_512
from penstock.platform.chance import SystemChance

SALT = base64.b64encode(b"a grain or two").decode()
SALTED = base64.b64encode(b"\x07" * 32).decode()


def test_a_password_is_salted_and_stretched_and_only_keys_are_kept() -> None:
    word = f"SCRAM-SHA-256=[name=alice,password=pencil,salt={SALT},iterations=5000]"
    (record,) = credentials_of([word], SystemChance())
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"a grain or two", 5000)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert (record.name, record.mechanism, record.iterations) == ("alice", SHA_256, 5000)
    assert record.salt == b"a grain or two"
    assert record.stored_key == hashlib.sha256(client_key).digest()
    assert record.server_key == hmac.digest(salted, b"Server Key", "sha256")


def test_each_user_gets_a_salt_of_their_own() -> None:
    words = [f"SCRAM-SHA-512=[name={user},password=pencil]" for user in ("ann", "bob")]
    ann, bob = credentials_of(words, SystemChance())
    assert (ann.mechanism, ann.iterations) == (SHA_512, 4096)
    assert ann.salt != bob.salt
    assert ann.stored_key != bob.stored_key


def test_values_may_stand_in_quotes_and_hold_commas_and_equal_signs() -> None:
    plain, quoted = (
        credentials_of([f"SCRAM-SHA-256=[name=a,salt={SALT},password={text}]"], SystemChance())
        for text in ("a=b", '"a=b"')
    )
    assert plain == quoted
    (comma,) = credentials_of(['SCRAM-SHA-256=[password="a,b",name="a"]'], SystemChance())
    assert comma.name == "a"


def test_what_is_salted_already_is_taken_as_it_is() -> None:
    word = f'SCRAM-SHA-256=[name=a,salt="{SALT}",saltedpassword="{SALTED}"]'
    (record,) = credentials_of([word], SystemChance())
    assert record.server_key == hmac.digest(b"\x07" * 32, b"Server Key", "sha256")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hunter2", "begins with"),
        ("SCRAM-SHA-1=[name=a,password=hunter2]", "begins with"),
        ("SCRAM-SHA-256=name=a,password=hunter2", "between [ and ]"),
        ("SCRAM-SHA-256=[password=hunter2]", "name of the user is missing"),
        ("SCRAM-SHA-256=[name=a]", "either a password or a saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=]", "password is empty"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=4095]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=16385]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=many]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,salt=?]", "not in base64"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,salt=]", "1 to 1024 bytes"),
        ("SCRAM-SHA-256=[name=a,name=b,password=hunter2]", "twice"),
        ("SCRAM-SHA-256=[name=a,password=x,hunter2]", "KEY=VALUE"),
        ("SCRAM-SHA-256=[name=a,password=x,hunter2=y]", "none of"),
        (f"SCRAM-SHA-256=[name=a,saltedpassword={SALTED}]", "goes with its salt"),
        (f"SCRAM-SHA-512=[name=a,salt={SALT},saltedpassword={SALTED}]", "has 64 bytes"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused_and_not_repeated(word: str, said: str) -> None:
    with pytest.raises(Failure) as refused:
        credentials_of([word], SystemChance())
    assert said in str(refused.value)
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"


def test_one_user_has_one_password_for_each_mechanism() -> None:
    words = [f"SCRAM-SHA-{size}=[name=a,password=x]" for size in (256, 512)]
    assert len(credentials_of(words, SystemChance())) == 2
    with pytest.raises(Failure, match="two passwords"):
        credentials_of([words[0], words[0]], SystemChance())
