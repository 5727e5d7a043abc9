"""A client of schema registries: the few questions that reading and writing values ask.

It runs on the driver and in Python workers, where each process keeps what it has learnt: schemas
never change once they have a number.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

ANSWER_BYTES_MAX = 4 << 20
WAIT_SECONDS_MAX = 10.0
SCHEMAS_MAX = 1000
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryFailed(Exception):
    """The registry could not be asked, or did not answer as one."""


class _NotThereError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema that has a number."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    number: int
    refers: bool = False
    """Whether it needs other schemas to be understood."""


@dataclass(frozen=True)
class Registry:
    """One registry, by its address; a user and a password may stand in it."""

    url: str = field(repr=False)

    def schema(self, number: int) -> Registered | None:
        """The schema of that number, if there is one."""
        try:
            return _schema(self.url, number)
        except _NotThereError:
            return None

    def latest(self, subject: str) -> Registered | None:
        """The newest schema of a subject, if it has any."""
        found = _ask(self.url, f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if found is None else _registered(found, found["id"])

    def register(self, subject: str, kind: str, text: str) -> int:
        """The number of a schema under a subject: the one that it has, or a new one."""
        asked = {"schema": text, **({} if kind == "AVRO" else {"schemaType": kind})}
        found = _ask(self.url, f"/subjects/{quote(subject, safe='')}/versions", asked)
        if found is None:
            raise RegistryFailed(f"{shown(self.url)} takes no schemas for {subject!r}")
        number: int = found["id"]
        return number


def shown(url: str) -> str:
    """An address without the user and password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@lru_cache(SCHEMAS_MAX)
def _schema(url: str, number: int) -> Registered:
    found = _ask(url, f"/schemas/ids/{number}")
    if found is None:
        raise _NotThereError  # which is not kept: it may be there next time
    return _registered(found, number)


def _registered(found: dict[str, Any], number: int) -> Registered:
    kind = found.get("schemaType", "AVRO")
    return Registered(kind, found["schema"], number, bool(found.get("references")))


def _ask(url: str, path: str, body: object = None) -> dict[str, Any] | None:
    """The answer, or None for what is not there."""
    parts = urlsplit(url)
    headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
    if "@" in parts.netloc:
        who = unquote(parts.netloc.rpartition("@")[0])
        headers["Authorization"] = "Basic " + base64.b64encode(who.encode()).decode()
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = MEDIA_TYPE
    if parts.scheme not in ("http", "https"):
        raise RegistryFailed(f"{shown(url)} is not an address: it begins with http:// or https://")
    request = urllib.request.Request(shown(url).rstrip("/") + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS_MAX) as answer:
            content = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as fault:
        if fault.code == 404:
            return None
        raise RegistryFailed(f"the registry {shown(url)} answered {fault.code} to {path}") from None
    except OSError as fault:
        raise RegistryFailed(f"the registry {shown(url)} cannot be reached: {fault}") from None
    try:
        if len(content) > ANSWER_BYTES_MAX:
            raise ValueError("it is too long")
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("it is not an object")
        return found
    except ValueError as fault:
        raise RegistryFailed(f"{shown(url)} is no schema registry: its answer {fault}") from None
