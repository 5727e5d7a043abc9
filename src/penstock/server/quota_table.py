"""Whose quota counts: Kafka's eight levels, from a client of a user down to everybody. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.metadata.quotas import Entity

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

_USER, _CLIENT, _ADDRESS = "user", "client-id", "ip"

_NAMES_MAX = 256
"""Of a client id, in a meter's name: they are chosen by clients, and may have 32 KB."""

_FOUND_MAX = 1000
"""Answers that are remembered: asked with each request, they would cost as much as serving it."""

_DEFAULT: Final = None
_UNNAMED: Final = object()
"""What a quota says nothing of, where None stands for the default."""


class Share(NamedTuple):
    """What somebody may use, and with whom they share it."""

    per_second: float
    sharers: tuple[str | None, str | None]
    """The user and the client id whose use is added up; None for any."""


class QuotaTable:
    """The quotas of one kind, by users and client ids."""

    __slots__ = ("_bounds", "_found")

    def __init__(self, entities: Mapping[Entity, Mapping[str, float]], kind: str) -> None:
        self._bounds: dict[tuple[object, object], float] = {}
        self._found: dict[tuple[str, str], Share | None] = {}
        for entity, quotas in entities.items():
            parts = dict(entity)
            if kind in quotas and _ADDRESS not in parts:
                user, client = parts.get(_USER, _UNNAMED), parts.get(_CLIENT, _UNNAMED)
                self._bounds[user, client] = quotas[kind]

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def share_of(self, user: str, client_id: str) -> Share | None:
        """What the most specific quota says; None if there is none.

        The empty client id is one like the others: whoever sends it does not escape.
        """
        found = self._found
        try:
            return found[user, client_id]
        except KeyError:
            if len(found) >= _FOUND_MAX or len(client_id) > _NAMES_MAX:
                found.clear()
            share = found[user, client_id] = self._look_up(user, client_id)
            return share

    def _look_up(self, user: str, client_id: str) -> Share | None:
        for level, sharers in _levels(user, client_id):
            bound = self._bounds.get(level)
            if bound is not None:
                return Share(bound, sharers)
        return None


def _levels(
    user: str, client_id: str
) -> Iterator[tuple[tuple[object, object], tuple[str | None, str | None]]]:
    """Where to look, in this order, and whose use counts if it is found there."""
    client = client_id[:_NAMES_MAX]
    both, of_user, of_client = (user, client), (user, None), (None, client)
    yield (user, client_id), both
    yield (user, _DEFAULT), both
    yield (user, _UNNAMED), of_user
    yield (_DEFAULT, client_id), both
    yield (_DEFAULT, _DEFAULT), both
    yield (_DEFAULT, _UNNAMED), of_user
    yield (_UNNAMED, client_id), of_client
    yield (_UNNAMED, _DEFAULT), of_client


def rates_of_addresses(
    entities: Mapping[Entity, Mapping[str, float]],
) -> dict[str | None, float]:
    """New connections a second, by address; None is the default."""
    return {
        entity[0][1]: quotas[CONNECTIONS]
        for entity, quotas in entities.items()
        if len(entity) == 1 and entity[0][0] == _ADDRESS and CONNECTIONS in quotas
    }
