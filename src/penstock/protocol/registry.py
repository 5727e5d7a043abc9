"""The table of APIs: which exist, in which versions, on which listeners, and who encodes them."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from penstock.protocol.api_keys import PENSTOCKS_OWN_FROM
from penstock.protocol.generated.api_table import APIS
from penstock.protocol.message import Message

_API_VERSIONS = 18
_PRODUCE = 0


class ApiSpec:
    """One API. Its codec is imported when it is first asked for."""

    __slots__ = (
        "_request",
        "_response",
        "codec_versions",
        "flexible_from",
        "key",
        "listeners",
        "module",
        "name",
        "versions",
    )

    def __init__(
        self,
        key: int,
        name: str,
        module: str,
        codec_versions: range,
        flexible_from: int,
        listeners: frozenset[str],
        *,
        unstable: bool,
    ) -> None:
        self.key = key
        self.name = name
        """Kafka's name, such as `Produce`."""
        self.module = module
        self.codec_versions = codec_versions
        """The versions that can be read and written."""
        first, end = codec_versions.start, codec_versions.stop
        # Old librdkafka takes a broker without Produce 0 for one that cannot do without it.
        self.versions = range(0 if key == _PRODUCE else first, end - 1 if unstable else end)
        """The versions to advertise."""
        self.flexible_from = flexible_from
        self.listeners = listeners
        """Where the API may be called: `broker`, `controller`, or both."""
        self._request: type[Message] | None = None
        self._response: type[Message] | None = None

    def request_header_version(self, version: int) -> int:
        """2 where the request is flexible, else 1; right for versions that nobody knows, too."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """1 where the response is flexible, else 0.

        ApiVersions always has 0: a client must be able to read the answer of a broker that does
        not know the version it asked with.
        """
        return 1 if version >= self.flexible_from and self.key != _API_VERSIONS else 0

    @property
    def request_class(self) -> type[Message]:
        """The class of the request."""
        if self._request is None:
            self._request = self._load("Request")
        return self._request

    @property
    def response_class(self) -> type[Message]:
        """The class of the response."""
        if self._response is None:
            self._response = self._load("Response")
        return self._response

    def _load(self, side: str) -> type[Message]:
        module = import_module(f"penstock.protocol.generated.{self.module}")
        return cast(type[Message], getattr(module, self.name + side))

    def __repr__(self) -> str:
        return f"<{self.name} ({self.key}), versions {self.versions[0]}-{self.versions[-1]}>"


API: dict[int, ApiSpec] = {
    key: ApiSpec(
        key, name, module, range(first, last + 1), flexible, frozenset(listeners), unstable=unstable
    )
    for key, name, module, first, last, flexible, listeners, unstable in APIS
}
"""Every API by its key."""


def advertised(listener: str) -> list[ApiSpec]:
    """The APIs of a `broker` or a `controller` listener, by key."""
    shown = (spec for spec in API.values() if spec.key < PENSTOCKS_OWN_FROM)
    return [spec for spec in shown if listener in spec.listeners]
