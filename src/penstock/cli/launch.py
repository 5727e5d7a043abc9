"""Starting a node without a command-line parser in its memory.

A node lives for months, and tests start one for every run. Typer would cost it some 60 ms and
3 MB for reading at most a handful of words, so the plain forms of `penstock up` and `penstock
server` are read here. Whatever this reader does not understand, help and mistakes included, is
left to the full parser, which declares the same options in `node`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

DATA_DEFAULT = "./penstock-data"
HOST_DEFAULT = "localhost"
PORT_DEFAULT = 9092
BROKERS_MAX = 64

_UP_OPTIONS = {
    "--data": "data",
    "-d": "data",
    "--host": "host",
    "--port": "port",
    "-p": "port",
    "--brokers": "brokers",
    "-b": "brokers",
    "--config": "config",
    "-c": "config",
    "--secure": "secure",
}
_FLAGS = ("--secure",)


class Up(NamedTuple):
    """What `penstock up` was asked for."""

    data: str = DATA_DEFAULT
    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    overrides: Mapping[str, str] = {}
    brokers: int = 1
    secure: bool = False


class Server(NamedTuple):
    """What `penstock server` was asked for."""

    path: str


def read_launch(words: Sequence[str]) -> Up | Server | None:
    """The node that this command line starts; None if it says anything else."""
    if not words:
        return None
    command, *rest = words
    if command == "server" and len(rest) == 1 and not rest[0].startswith("-"):
        return Server(rest[0])
    return _read_up(rest) if command == "up" else None


def _read_up(words: Sequence[str]) -> Up | None:
    up = Up(overrides={})
    for option, value in _pairs(words):
        name = _UP_OPTIONS.get(option)
        if name is None or not value:
            return None
        if name == "config":
            key, equals, setting = value.partition("=")
            if not (equals and key):
                return None
            up = up._replace(overrides={**up.overrides, key: setting})
        elif name == "port":
            if not (value.isascii() and value.isdigit() and int(value) < 65536):
                return None
            up = up._replace(port=int(value))
        elif name == "brokers":
            if not (value.isascii() and value.isdigit() and 0 < int(value) <= BROKERS_MAX):
                return None
            up = up._replace(brokers=int(value))
        elif name == "secure":
            up = up._replace(secure=True)
        elif name == "data":
            up = up._replace(data=value)
        else:
            up = up._replace(host=value)
    return up


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Options with their values, from `--port 9092` and `--port=9092` alike."""
    pairs: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            pairs.append((word, "yes"))
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _FLAGS:
            option = word  # a flag with a value is a mistake, which the full parser explains
        pairs.append((option, value if equals else next(rest, "")))
    return pairs


def launch(wanted: Up | Server) -> int:
    """Run the node until it is told to stop; the exit status."""
    from penstock.app import run_company, run_server, run_up

    if isinstance(wanted, Server):
        return run_server(wanted.path)
    if wanted.brokers > 1:
        data, host, port, overrides, brokers, secure = wanted
        return run_company(brokers, data, host, port, overrides, secure=secure)
    return run_up(wanted.data, wanted.host, wanted.port, wanted.overrides, secure=wanted.secure)
