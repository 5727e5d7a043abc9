"""Requests at random: plausible enough to reach a handler, and damaged often enough not to."""

from __future__ import annotations

import importlib
import inspect
from random import Random
from struct import error as StructError
from typing import Any

from penstock.protocol.message import Message, Part
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import ApiSpec
from tests.unit.server.asking import batch, question

NUMBERS = (0, 1, -1, 2, -2, 5, -5, 100, 32_767)
PARTITIONS = (0, 0, 1, -1, 7)
TEXTS = ("t", "u", "nowhere", "", "not a name!", "1", "x" * 300)
HEADER_BYTES = 4  # key and version, which damage leaves alone


class RandomRequests:
    """A source of request frames, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def frame(self, specs: list[ApiSpec]) -> bytes:
        """A request of one of these APIs, in any of its versions, without its length."""
        while True:
            spec = self._chance.choice(specs)
            version = self._chance.choice(range(spec.codec_versions.start, spec.versions.stop))
            try:
                whole = question(self._message(spec.request_class), version)
            except (ProtocolError, StructError):
                continue  # a field that this version has no place for, or too little
            return bytes(self._damaged(bytearray(whole[4:])))

    def readable(self, spec: ApiSpec, version: int, count: int) -> list[Any]:
        """Whole requests of one version, as a node would have read them."""
        found: list[Any] = []
        while len(found) < count:
            out = bytearray()
            try:
                self._message(spec.request_class).write(version, out)
            except (ProtocolError, StructError):
                continue
            request, _ = spec.request_class.read(bytes(out), version, 0)
            found.append(request)
        return found

    def _message(self, cls: type[Message]) -> Message:
        made: Message = self._part(cls)
        return made

    def _part(self, cls: type[Part]) -> Any:
        fields = inspect.signature(cls.__init__).parameters
        return cls(
            **{
                name: self._value(cls, name, str(field.annotation))
                for name, field in fields.items()
                if name != "self"
            }
        )

    def _value(self, cls: type[Part], name: str, kind: str) -> Any:
        chance = self._chance
        if "| None" in kind and chance.random() < 0.2:
            return None
        kind = kind.replace(" | None", "")
        if kind.startswith("list["):
            return [self._value(cls, name, kind[5:-1]) for _ in range(chance.choice((0, 1, 1, 2)))]
        if kind == "int":
            return chance.choice(PARTITIONS if "partition" in name else NUMBERS)
        if kind == "str":
            return chance.choice(TEXTS)
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "bytes":
            return bytes(16)
        if kind == "float":
            return 1.0
        found = getattr(importlib.import_module(cls.__module__), kind, None)
        if isinstance(found, type) and issubclass(found, Part):
            return self._part(found)
        return batch(2)

    def _damaged(self, frame: bytearray) -> bytearray:
        chance = self._chance
        for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
            at = chance.randrange(HEADER_BYTES, len(frame) + 1)
            match chance.choice(["change", "change", "change", "cut", "insert"]):
                case "change" if at < len(frame):
                    frame[at] = chance.randrange(256)
                case "cut":
                    del frame[at:]
                case "insert":
                    frame[at:at] = chance.randbytes(chance.randrange(8))
        return frame
