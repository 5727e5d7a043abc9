"""The name in a certificate as Java writes it: ACLs that were made for Kafka go by that text.

It is RFC 2253 with two habits of Java's: `=` and `#` are escaped wherever they stand, and
attributes that the RFC gives no short name are shown by number and as bytes.
"""

from __future__ import annotations

from cryptography import x509

_SHORT_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"

# The tags of DER that hold text: UTF8, Printable, T61, IA5, General, BMP.
_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER. ValueError if there is none to be read."""
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except (TypeError, x509.InvalidVersion) as problem:  # such as an attribute of an unusual type
        raise ValueError(str(problem)) from problem
    return ",".join(_relative(each) for each in reversed(subject.rdns))


def _relative(name: x509.RelativeDistinguishedName) -> str:
    return "+".join(_attribute(each) for each in name)


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    number = attribute.oid.dotted_string
    encoded = _encoded_value(attribute)
    if number not in _SHORT_NAMES or encoded[0] not in _TEXTS:
        return f"{_SHORT_NAMES.get(number, number)}=#{encoded.hex()}"
    # Java takes every kind of text for UTF-8, and a name that differs is somebody else.
    return f"{_SHORT_NAMES[number]}={_escaped(_content(encoded).decode(errors='replace'))}"


def _escaped(text: str) -> str:
    plain = text.strip(_BLANKS)
    start = text.find(plain) if plain else len(text)
    end = start + len(plain)
    out = []
    for at, char in enumerate(text):
        if char == "\0":
            out.append("\\00")
        elif char in _ESCAPED or not start <= at < end:
            out.append(f"\\{char}")
        else:
            out.append(char)
    return "".join(out)


def _encoded_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """The value in DER: a name of this attribute alone, without what lies around the value."""
    name = x509.Name([x509.RelativeDistinguishedName([attribute])]).public_bytes()
    pair = _content(_content(_content(name)))  # a sequence of a set of a sequence
    return pair[extent_of(pair)[1] :]  # behind the attribute's number


def _content(encoded: bytes) -> bytes:
    start, end = extent_of(encoded)
    return encoded[start:end]


def extent_of(encoded: bytes | memoryview) -> tuple[int, int]:
    """Where the content of the first element starts and ends."""
    length, start = encoded[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(encoded[2:start])
    return start, start + length
