"""The keys of whoever signs tokens: a JSON web key set (RFC 7517) behind https:// or file://.

It is asked for when it is first needed, when a token names a key that is not in it, and when it is
old; seldom in any case, whatever tokens are shown. Keys that were known stay until others come.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.security.retrieval import RetrievalFailed, retrieve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.platform.workers import Workers

log = logging.getLogger("penstock.security")

KEYS_MAX = 100
RSA_BITS_MIN = 2048
BYTES_MAX = 256 * 1024
SECONDS_MAX = 10.0
AGAIN_SECONDS_MIN = 10.0
"""Between two askings, however many tokens name keys that are not known."""

_ALGORITHMS = {
    "RSA": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    "EC": ["ES256", "ES384", "ES512"],
    "OKP": ["EdDSA"],
}
"""By type of key. Those with a shared secret are missing on purpose: what checks must not sign."""


class SigningKey(NamedTuple):
    """A public key, and what it may be used with."""

    public: Any
    algorithms: list[str]


def read_keys(data: bytes) -> dict[str, SigningKey]:
    """The keys of a set by their ids, without those for other uses; ValueError if it is none."""
    import jwt

    try:
        entries = json.loads(data)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("it is no JSON web key set") from None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise ValueError(f"it has no list of keys, or more than {KEYS_MAX}")
    found: dict[str, SigningKey] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        allowed = _ALGORITHMS.get(str(entry.get("kty")), [])
        algorithm = entry.get("alg")
        if algorithm is not None:
            allowed = [each for each in allowed if each == algorithm]
        if not allowed:
            continue
        try:
            public = jwt.PyJWK(entry, algorithm or None).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue  # one that cannot be read does not spoil the others
        if getattr(public, "key_size", 0) < RSA_BITS_MIN and entry["kty"] == "RSA":
            continue  # short enough to be forged
        found[str(entry.get("kid", ""))] = SigningKey(_public(public), allowed)
    if not found:
        raise ValueError("it has no public key that tokens could be signed with")
    return found


def _public(key: Any) -> Any:
    """Without the private half, should an operator have left it in the file."""
    return key.public_key() if hasattr(key, "public_key") else key


class Keys:
    """The key set of one address, as it was last seen."""

    def __init__(
        self,
        url: str,
        refresh_ms: int,
        retrieve: Callable[[str, int, float], bytes] = retrieve,
    ) -> None:
        self.known: Mapping[str, SigningKey] = {}
        self._url = url
        self._refresh_seconds = refresh_ms / 1000
        self._retrieve = retrieve
        self._asked_at = -math.inf
        self._asking: asyncio.Future[None] | None = None

    def load(self) -> None:
        """Ask now and wait: for files, at the start. ValueError or RetrievalFailed."""
        self.known = read_keys(self._retrieve(self._url, BYTES_MAX, SECONDS_MAX))

    async def refresh(self, workers: Workers, missing: bool) -> None:
        """Ask, if a key is missing or those that are known are old, but not if that was done a
        moment ago. Who comes meanwhile waits for the same answer."""
        now = asyncio.get_running_loop().time()
        if self._asking is None:
            wait = AGAIN_SECONDS_MIN if missing or not self.known else self._refresh_seconds
            if now < self._asked_at + wait:
                return
            self._asked_at = now
            self._asking = asyncio.ensure_future(self._ask(workers))
        # Shielded: a client that hangs up must not take the answer from the others.
        await asyncio.shield(self._asking)

    async def _ask(self, workers: Workers) -> None:
        try:
            data = await workers.submit(lambda: self._retrieve(self._url, BYTES_MAX, SECONDS_MAX))
            self.known = read_keys(data)
        except (RetrievalFailed, ValueError) as problem:
            log.warning("cannot renew the keys of %s: %s", self._url, problem)
        finally:
            self._asking = None
