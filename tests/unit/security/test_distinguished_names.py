"""Names in certificates, as X500Principal.getName of Java writes them: each was seen there."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from penstock.security.distinguished_names import subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
Attribute = x509.NameAttribute[str] | x509.NameAttribute[bytes]


def certificate(*parts: Attribute | list[Attribute]) -> bytes:
    relative = [
        x509.RelativeDistinguishedName(each if isinstance(each, list) else [each]) for each in parts
    ]
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(relative))
        .issuer_name(issuer)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2040, 1, 1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


def common_name(text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka-1.example.com", "kafka-1.example.com"),
        (" #lead = x ", r"\ \#lead \= x" + "\\ "),
        ("   ", r"\ \ " + "\\ "),
        ('Foo, "Inc" <a;b> \\ c+d', r"Foo\, \"Inc\" \<a\;b\> \\ c\+d"),
        ("a/b:c@d'e(f)?!*&%$~|{}[]^_`", "a/b:c@d'e(f)?!*&%$~|{}[]^_`"),
        ("nul\0x", r"nul\00x"),
        ("日本", "日本"),
    ],
)
def test_characters_that_mean_something_are_escaped(text: str, expected: str) -> None:
    assert subject_of(certificate(common_name(text))) == f"CN={expected}"


def test_the_last_part_comes_first_and_parts_of_many_values_keep_their_order() -> None:
    name = certificate(
        [common_name("a"), x509.NameAttribute(NameOID.USER_ID, "u1")],
        x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example"),
        x509.NameAttribute(NameOID.LOCALITY_NAME, "Köln"),
        [
            x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "NRW"),
            x509.NameAttribute(NameOID.STREET_ADDRESS, "1 St"),
        ],
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
    )
    assert subject_of(name) == "C=DE,ST=NRW+STREET=1 St,L=Köln,DC=example,CN=a+UID=u1"


def test_attributes_without_a_short_name_are_shown_by_number_and_as_bytes() -> None:
    name = certificate(
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
        x509.NameAttribute(NameOID.SERIAL_NUMBER, "12"),
        common_name("x"),
    )
    assert subject_of(name) == "CN=x,2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63"


def test_long_values_are_shown_whole() -> None:
    long = x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a" * 200 + "@b.c")
    expected = "1.2.840.113549.1.9.1=#1681cc" + "61" * 200 + "40622e63"
    assert subject_of(certificate(long)) == expected


def test_a_text_in_another_alphabet_does_not_pass_for_the_same_name() -> None:
    wide = x509.NameAttribute(NameOID.COMMON_NAME, "ab", _type=_ASN1Type.BMPString)
    assert subject_of(certificate(wide)) == r"CN=\00a\00b"


def test_a_certificate_may_have_no_name() -> None:
    assert subject_of(certificate()) == ""


def test_a_certificate_of_a_version_that_there_is_not_has_no_name() -> None:
    raw = certificate(x509.NameAttribute(NameOID.COMMON_NAME, "a"))
    changed = raw.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x0a", 1)
    assert changed != raw
    with pytest.raises(ValueError, match="version"):
        subject_of(changed)
