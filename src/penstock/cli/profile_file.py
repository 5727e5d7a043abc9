"""Profiles on disk: which clusters somebody works with, and how they come in.

One file of one person, in TOML and open to its owner alone, for it may hold secrets:

    current = "production"

    [profiles.production]
    bootstrap = "kafka-1:9092,kafka-2:9092"
    readonly = true
    command_config = "/home/ann/production.properties"

    [profiles.production.settings]
    "sasl.password" = "env:PRODUCTION_PASSWORD"
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock.cli.failure import USAGE, Failure

FILE_BYTES_MAX = 1 << 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Profile(NamedTuple):
    """One cluster, as somebody comes to it."""

    name: str
    bootstrap: str = ""
    readonly: bool = False
    """Whether commands that change something refuse."""
    command_config: str = ""
    """A file of client properties, read when the profile is used."""
    settings: Mapping[str, str] = {}
    """Settings as -X takes them; they win over those of the file."""


class Profiles(NamedTuple):
    """All that the file holds."""

    current: str = ""
    """The one that counts where none is named; empty if none does."""
    by_name: Mapping[str, Profile] = {}

    def get(self, name: str) -> Profile:
        """The profile of a name; `Failure` if there is none."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(sorted(self.by_name)) or "none yet"
            raise Failure(
                f"there is no profile {name}",
                f"`penstock profile add` makes one; there is {known}",
                USAGE,
            )
        return found

    def with_profile(self, profile: Profile) -> Profiles:
        return self._replace(by_name={**self.by_name, profile.name: profile})

    def without(self, name: str) -> Profiles:
        rest = {key: each for key, each in self.by_name.items() if key != name}
        return Profiles("" if self.current == name else self.current, rest)


def profiles_path() -> str:
    """Where the file is, by the rules for such files (XDG)."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "penstock", "profiles.toml")


def load_profiles() -> Profiles:
    """What the file holds; nothing where there is none."""
    path = profiles_path()
    try:
        with open(path, "rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Profiles()
    except OSError as problem:
        raise Failure(f"{path}: {problem.strerror}", "", USAGE) from None
    if len(data) > FILE_BYTES_MAX:
        raise Failure(f"{path} is larger than any file of profiles", "", USAGE)
    import tomllib

    try:
        return _profiles(tomllib.loads(data.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as problem:
        raise Failure(f"{path}: {problem}", "mend it by hand, or remove it", USAGE) from None


def save_profiles(profiles: Profiles) -> None:
    """Write the file again, whole: it is the old one or the new one, and nobody else's to read."""
    path = profiles_path()
    fresh = f"{path}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.lexists(fresh):
            os.unlink(fresh)  # what a crash left
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(_lines(profiles)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as problem:
        raise Failure(f"{path} cannot be written: {problem.strerror}", "", USAGE) from None


def _check_owner(path: str, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise Failure(
            f"{path} is open to others (mode {mode:04o}), and may hold secrets",
            f"chmod 600 {path}",
            USAGE,
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise Failure(f"{path} belongs to somebody else", "use a file of your own", USAGE)


def _profiles(tree: Mapping[str, Any]) -> Profiles:
    _check_keys(tree, {"current": str, "profiles": dict}, "")
    found = {}
    for name, table in tree.get("profiles", {}).items():
        where = f"profiles.{name}"
        if not NAME.fullmatch(name) or not isinstance(table, dict):
            raise ValueError(f"{where} is no profile")
        kinds = {"bootstrap": str, "readonly": bool, "command_config": str, "settings": dict}
        _check_keys(table, kinds, f"{where}.")
        settings = table.get("settings", {})
        _check_keys(settings, dict.fromkeys(settings, str), f"{where}.settings.")
        found[name] = Profile(name, **table)
    return Profiles(tree.get("current", ""), found)


def _check_keys(table: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> None:
    """ValueError that names the key, and not its value, which may be a secret."""
    for key, value in table.items():
        if key not in kinds:
            raise ValueError(f"{where}{key} means nothing")
        if not isinstance(value, kinds[key]):
            raise ValueError(f"{where}{key} is no {kinds[key].__name__}")


def _lines(profiles: Profiles) -> Iterator[str]:
    yield f"current = {_text(profiles.current)}"
    for name, profile in sorted(profiles.by_name.items()):
        yield ""
        yield f"[profiles.{_text(name)}]"
        yield f"bootstrap = {_text(profile.bootstrap)}"
        yield f"readonly = {'true' if profile.readonly else 'false'}"
        if profile.command_config:
            yield f"command_config = {_text(profile.command_config)}"
        if profile.settings:
            yield ""
            yield f"[profiles.{_text(name)}.settings]"
            for key, value in sorted(profile.settings.items()):
                yield f"{_text(key)} = {_text(value)}"


def _text(value: str) -> str:
    """A string of TOML: as JSON writes it, but for the one character that JSON leaves bare."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
