"""What SCRAM's two sides say to each other, read strictly and written. Pure texts."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.metadata.scram import ScramCredential

MESSAGE_BYTES_MAX = 4096
NONCE_LENGTH_MAX = 1024

TOKEN_EXTENSION = "tokenauth"
"""What a client adds to its first message to log in with a delegation token."""


class BadMessage(ValueError):
    """A message that is none of SCRAM's. It says what is wrong without repeating it."""


class ClientFirst(NamedTuple):
    binding: str
    """What stands before the message proper; the client repeats it in the end."""
    bare: str
    user: str
    authorization: str
    """Who the client wants to act as; empty if as itself."""
    nonce: str
    by_token: bool


class ClientFinal(NamedTuple):
    binding: bytes
    nonce: str
    unproved: str
    """The message without its proof: both sides sign it."""
    proof: bytes

    def __repr__(self) -> str:
        return "ClientFinal()"


def text_of(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise BadMessage("the message is too long")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise BadMessage("the message is not UTF-8") from None


def read_client_first(message: bytes) -> ClientFirst:
    """The client's first words: who it is, and its nonce."""
    text = text_of(message)
    flag, _, rest = text.partition(",")
    authorization, comma, bare = rest.partition(",")
    if not comma or flag not in ("n", "y"):
        raise BadMessage("the message begins without a header, or asks for channel binding")
    if authorization and not authorization.startswith("a="):
        raise BadMessage("the header has no authorization id where one should be")
    fields = bare.split(",")
    if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
        raise BadMessage("user and nonce are not where they should be")
    nonce = fields[1][2:]
    if not nonce or len(nonce) > NONCE_LENGTH_MAX or not printable(nonce):
        raise BadMessage("the nonce is empty, too long, or not printable")
    return ClientFirst(
        binding=f"{flag},{authorization},",
        bare=bare,
        user=read_name(fields[0][2:]),
        authorization=read_name(authorization[2:]) if authorization else "",
        nonce=nonce,
        by_token=_extensions(fields[2:]).get(TOKEN_EXTENSION, "").lower() == "true",
    )


def read_client_final(message: bytes) -> ClientFinal:
    """The client's last words, with the proof."""
    text = text_of(message)
    unproved, _, proof = text.rpartition(",p=")
    fields = unproved.split(",")
    if len(fields) < 2 or not fields[0].startswith("c=") or not fields[1].startswith("r="):
        raise BadMessage("binding, nonce and proof are not where they should be")
    _extensions(fields[2:])
    return ClientFinal(decoded(fields[0][2:]), fields[1][2:], unproved, decoded(proof))


def read_name(text: str) -> str:
    """A name as messages write it, with its commas and equals signs put back."""
    name = text.replace("=2C", ",").replace("=3D", "=")
    if not name or "\0" in name or "=" in text.replace("=2C", "").replace("=3D", ""):
        raise BadMessage("a name is empty, or has what a name cannot have")
    return name


def escaped(name: str) -> str:
    """A name as messages write it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _extensions(fields: list[str]) -> dict[str, str]:
    """Those that come after the known fields: they are read over, but for the one we know."""
    found: dict[str, str] = {}
    for field in fields:
        key, equals, value = field.partition("=")
        if not equals or not value or not (key.isascii() and key.isalpha()):
            raise BadMessage("an extension is not of the form name=value")
        found[key] = value
    return found


def printable(text: str) -> bool:
    return all("\x21" <= each <= "\x7e" and each != "," for each in text)


def decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        data = b""
    if encoded(data) != text:  # one value has one form
        raise BadMessage("what should be base64 is not")
    return data


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class ServerFirst(NamedTuple):
    text: str
    nonce: str
    salt: bytes
    iterations: int


def read_server_first(message: bytes) -> ServerFirst:
    """The server's first words, as a client reads them."""
    text = text_of(message)
    fields = text.split(",")
    if len(fields) < 3 or [each[:2] for each in fields[:3]] != ["r=", "s=", "i="]:
        raise BadMessage("nonce, salt and iterations are not where they should be")
    _extensions(fields[3:])
    nonce, iterations = fields[0][2:], fields[2][2:]
    if not printable(nonce) or len(nonce) > 2 * NONCE_LENGTH_MAX:
        raise BadMessage("the nonce is too long, or not printable")
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) < 10):
        raise BadMessage("the iterations are no number")
    return ServerFirst(text, nonce, decoded(fields[1][2:]), int(iterations))


def read_server_final(message: bytes) -> bytes:
    """The server's signature, as a client reads it."""
    text = text_of(message)
    if not text.startswith("v="):
        raise BadMessage("the server does not sign")
    return decoded(text[2:].partition(",")[0])


def server_first(nonce: str, credential: ScramCredential) -> str:
    """The server's first words: its part of the nonce, the salt, the iterations."""
    return f"r={nonce},s={encoded(credential.salt)},i={credential.iterations}"
