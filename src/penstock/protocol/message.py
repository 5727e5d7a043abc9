"""What every generated message can do: be read, be written, be compared and be shown."""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Any, ClassVar, Self

from penstock.protocol.primitives import Buffer, ProtocolError, Splices

Reader = Callable[[memoryview, int], tuple[Any, int]]
Writer = Callable[[Any, bytearray, Splices | None], None]


SECRETS = frozenset(
    {
        *("auth_bytes", "hmac", "salted_password", "server_key", "stored_key"),
        *("request_data", "response_data"),  # of envelopes, which may hold any of the others
    }
)
"""Fields that open doors: a message that finds its way into a log shows none of them."""

_SECRET_SETTINGS = ("password", "passphrase", "secret", "jaas", "keystore.key", "keystore.cert")
"""What the names of settings have in common whose values are secrets."""


class Part:
    """A struct inside a message. Equal when all fields are; mutable, so not hashable."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, it) == getattr(other, it) for it in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{it}={'[hidden]' if self._hides(it) else repr(getattr(self, it))}"
            for it in self.__slots__
        )
        return f"{type(self).__name__}({fields})"

    def _hides(self, field: str) -> bool:
        if field in SECRETS:
            return True
        if field not in ("value", "default_value"):
            return False
        name = str(getattr(self, "name", ""))
        return any(each in name for each in _SECRET_SETTINGS)


class Message(Part):
    """A message in all its versions: fields that a version lacks have their defaults."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    """The API, or the type of record; -1 where the message has no number."""
    VERSIONS: ClassVar[range]
    FLEXIBLE_FROM: ClassVar[int]
    """The first version with compact lengths and tagged fields; beyond VERSIONS if none is."""
    READERS: ClassVar[dict[int, Reader]]
    WRITERS: ClassVar[dict[int, Writer]]

    @classmethod
    def read(cls, data: Buffer, version: int, at: int = 0) -> tuple[Self, int]:
        """The message that starts at `at`, and where it ends; ProtocolError if there is none."""
        reader = cls.READERS.get(version)
        if reader is None:
            raise _no_version(cls, version)
        try:
            return reader(data if type(data) is memoryview else memoryview(data), at)
        except (StructError, IndexError):
            raise ProtocolError(f"{cls.__name__} version {version} is cut short") from None

    def write(self, version: int, out: bytearray, splices: Splices | None = None) -> None:
        """Append the message to `out`. Records that are splices are noted, not copied."""
        writer = self.WRITERS.get(version)
        if writer is None:
            raise _no_version(type(self), version)
        writer(self, out, splices)

    def encode(self, version: int) -> bytes:
        """The message's bytes, where speed does not matter."""
        out = bytearray()
        self.write(version, out)
        return bytes(out)


def _no_version(cls: type[Message], version: int) -> ProtocolError:
    first, last = cls.VERSIONS[0], cls.VERSIONS[-1]
    return ProtocolError(f"{cls.__name__} has versions {first} to {last}, not {version}")
