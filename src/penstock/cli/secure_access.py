"""Which cluster a command talks to, and as whom: from options, the environment, profiles and files.

The address comes from the first that names one, and what is said on the command line goes before
what stands in the environment:

1. `-b`, or `-X bootstrap.servers`
2. the file of `--command-config`
3. the profile of `--profile`
4. `PENSTOCK_BOOTSTRAP`
5. the file or the profile that `PENSTOCK_COMMAND_CONFIG` and `PENSTOCK_PROFILE` name
6. the profile in use (`penstock profile use`), which counts only where nothing above names a
   cluster: credentials never go to a cluster that they were not made for by accident
7. localhost:9092

Settings add up: the profile's file, the profile's own, the file of `--command-config`, `-X`; of
equal keys the last one wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.cli.failure import USAGE, Failure
from penstock.cli.profile_file import Profile, load_profiles

SERVERS = "bootstrap.servers"


class Given(NamedTuple):
    """Something said, and whether it stood in the environment and not on the command line."""

    value: str
    by_environment: bool = False


class Access(NamedTuple):
    """A cluster, and how to come in; settings bear librdkafka's names."""

    bootstrap: str
    settings: Mapping[str, str]
    readonly: str = ""
    """The profile that forbids changes, if one does."""


def access_of(
    bootstrap: Given | None,
    profile: Given | None,
    command_config: Given | None,
    pairs: Mapping[str, str],
    default: str,
) -> Access:
    """The cluster that these words mean."""
    from penstock.cli.secure_properties import read_properties, translated
    from penstock.cli.secure_secrets import secret_of

    own = translated({key: secret_of(key, value) for key, value in pairs.items()}, "-X")
    file = {} if command_config is None else read_properties(command_config.value)
    chosen = None if profile is None else load_profiles().get(profile.value)
    base = {} if chosen is None else _settings(chosen)
    places = (
        (bootstrap and bootstrap.value, bootstrap),
        (file.get(SERVERS), command_config),
        (base.get(SERVERS), profile),
    )
    address = own.get(SERVERS) or _first(places)
    if address is None and chosen is None and command_config is None:
        chosen = _in_use()
        base = {} if chosen is None else _settings(chosen)
        address = base.get(SERVERS)
    settings = {**base, **file, **own}
    settings.pop(SERVERS, None)
    return Access(
        address or default,
        settings,
        chosen.name if chosen is not None and chosen.readonly else "",
    )


def _first(places: Sequence[tuple[str | None, Given | None]]) -> str | None:
    """The first address that the command line names, or else the first of the environment."""
    for by_environment in (False, True):
        for address, given in places:
            if address and given is not None and given.by_environment is by_environment:
                return address
    return None


def _in_use() -> Profile | None:
    profiles = load_profiles()
    return profiles.get(profiles.current) if profiles.current else None


def _settings(profile: Profile) -> dict[str, str]:
    """A profile's settings, its address among them."""
    from penstock.cli.secure_properties import check_words, read_properties, translated
    from penstock.cli.secure_secrets import secret_of

    where = f"profile {profile.name}"
    check_words(profile.settings, where)
    file = read_properties(profile.command_config) if profile.command_config else {}
    own = {key: secret_of(key, value) for key, value in profile.settings.items()}
    settings = {**file, **translated(own, where)}
    if profile.bootstrap:
        settings[SERVERS] = profile.bootstrap
    return settings


def refuse_changes(access: Access) -> None:
    """Return unless the profile that counts is for reading alone."""
    if access.readonly:
        raise Failure(
            f"profile {access.readonly} is readonly, and this command changes something",
            "choose another one with --profile, or see first with --dry-run where there is one",
            USAGE,
        )
