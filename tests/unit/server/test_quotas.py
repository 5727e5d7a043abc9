"""Whose quota counts, and how long who exceeds it has to wait; in made-up time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.app.settings import settings_for_up
from penstock.metadata.quotas import ClientQuotasImage, Entity
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.security.principal import Principal
from penstock.server import quotas as machine
from penstock.server.quota_table import PRODUCE, QuotaTable, Share, rates_of_addresses
from penstock.server.quotas import Quotas

LEVELS: list[tuple[Entity, tuple[str | None, str | None]]] = [
    ((("client-id", "app"), ("user", "alice")), ("alice", "app")),
    ((("client-id", None), ("user", "alice")), ("alice", "app")),
    ((("user", "alice"),), ("alice", None)),
    ((("client-id", "app"), ("user", None)), ("alice", "app")),
    ((("client-id", None), ("user", None)), ("alice", "app")),
    ((("user", None),), ("alice", None)),
    ((("client-id", "app"),), (None, "app")),
    ((("client-id", None),), (None, "app")),
]
"""Kafka's order, the most specific first, and who shares what is granted there."""


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_most_specific_quota_counts(level: int) -> None:
    entities = {
        entity: {PRODUCE: float(100 + at)} for at, (entity, _) in enumerate(LEVELS) if at >= level
    }
    share = QuotaTable(entities, PRODUCE).share_of("alice", "app")
    assert share == Share(100.0 + level, LEVELS[level][1])


def test_a_quota_for_others_or_of_another_kind_does_not_count() -> None:
    entities: dict[Entity, dict[str, float]] = {
        (("user", "bob"),): {PRODUCE: 1.0},
        (("client-id", "other"),): {PRODUCE: 1.0},
        (("client-id", None), ("user", "bob")): {PRODUCE: 1.0},
        (("user", "alice"),): {"consumer_byte_rate": 1.0},
        (("ip", None),): {PRODUCE: 1.0},
    }
    assert QuotaTable(entities, PRODUCE).share_of("alice", "app") is None


def test_an_empty_client_id_does_not_escape_the_default() -> None:
    table = QuotaTable({(("client-id", None),): {PRODUCE: 7.0}}, PRODUCE)
    assert table.share_of("alice", "") == Share(7.0, (None, ""))


def test_a_long_client_id_is_looked_up_whole_and_metered_by_its_beginning() -> None:
    name = "x" * 30_000
    table = QuotaTable({(("client-id", name),): {PRODUCE: 7.0}}, PRODUCE)
    assert table.share_of("alice", name) == Share(7.0, (None, "x" * 256))
    assert table.share_of("alice", name[1:]) is None


def test_addresses_have_rates_of_their_own() -> None:
    entities: dict[Entity, dict[str, float]] = {
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
        (("ip", None),): {"connection_creation_rate": 50.0},
        (("user", "alice"),): {"producer_byte_rate": 1.0},
    }
    assert rates_of_addresses(entities) == {"10.0.0.1": 5.0, None: 50.0}


class Scene:
    """Quotas in time that passes when a test says so."""

    def __init__(self, entities: dict[Entity, dict[str, float]]) -> None:
        self.now = 0
        config = NodeConfig.of(settings_for_up("unused", "127.0.0.1", 0, {}))
        self.quotas = Quotas(config, lambda: self.now)
        self.quotas.on_image(ClientQuotasImage(entities))

    def mutations(self, version: int = 7, api_key: ApiKey = ApiKey.CREATE_TOPICS) -> Any:
        call: Any = SimpleNamespace(
            principal=Principal("alice"), client_id="app", api_key=int(api_key), version=version
        )
        return self.quotas.mutations(call)


ALICE: Entity = (("user", "alice"),)
EVERY_CLIENT: Entity = (("client-id", None),)


def test_without_quotas_nothing_is_metered() -> None:
    scene = Scene({})
    assert not scene.quotas.metering
    assert scene.quotas.produce.charge("alice", "app", 10**12, 0) == 0
    assert scene.mutations() is None


def test_who_writes_faster_than_granted_waits_for_the_difference() -> None:
    scene = Scene({ALICE: {"producer_byte_rate": 1000.0}})
    charge = scene.quotas.produce.charge
    assert charge("alice", "app", 10_000, 0) == 0
    assert charge("alice", "other", 1000, 0) == 1000  # a user's clients share what is theirs
    assert charge("bob", "app", 10**9, 0) == 0


def test_clients_with_a_default_quota_have_it_each() -> None:
    scene = Scene({EVERY_CLIENT: {"producer_byte_rate": 1000.0}})
    charge = scene.quotas.produce.charge
    assert charge("alice", "one", 10_000, 0) == 0
    assert charge("alice", "two", 10_000, 0) == 0
    assert charge("bob", "one", 1000, 0) == 1000


def test_what_is_read_counts_only_if_not_too_much_was_read_before() -> None:
    scene = Scene({ALICE: {"consumer_byte_rate": 1000.0}})
    fetch = scene.quotas.fetch
    assert fetch.window_max("alice", "app") == 10_000
    assert fetch.charge_if_granted("alice", "app", 9000, 0) == 0
    assert fetch.charge_if_granted("alice", "app", 9000, 0) == 0
    assert fetch.charge_if_granted("alice", "app", 9000, 0) == 8000
    assert fetch.charge_if_granted("alice", "app", 9000, 100) == 7900  # nothing was added
    assert fetch.charge_if_granted("alice", "app", 9000, 11_000) == 0


def test_a_batch_larger_than_a_window_grants_leaves_all_the_same() -> None:
    scene = Scene({ALICE: {"consumer_byte_rate": 1000.0}})
    fetch = scene.quotas.fetch
    assert fetch.charge_if_granted("alice", "app", 1_000_000, 0) == 0
    assert fetch.charge_if_granted("alice", "app", 1, 0) > 0


@pytest.mark.parametrize("size", [2_000, 100_000, 300_000])
def test_a_reader_gets_what_it_is_granted_in_large_answers_and_in_small(size: int) -> None:
    scene = Scene({ALICE: {"consumer_byte_rate": 100_000.0}})
    now, read = 0, 0
    while now < 200_000:
        wait_ms = scene.quotas.fetch.charge_if_granted("alice", "app", size, now)
        read += 0 if wait_ms else size
        now += wait_ms or 1
    assert read / 200 == pytest.approx(100_000, rel=0.1)


def test_nobody_waits_longer_than_a_sample_for_the_time_that_requests_took() -> None:
    scene = Scene({ALICE: {"request_percentage": 1.0}})
    assert scene.quotas.request.charge("alice", "app", 5.0, 0) == 0
    assert scene.quotas.request.charge("alice", "app", 100_000.0, 0) == 1000


def test_quotas_that_change_count_at_once_and_use_is_remembered() -> None:
    scene = Scene({ALICE: {"producer_byte_rate": 1000.0}})
    assert scene.quotas.produce.charge("alice", "app", 10_000, 0) == 0
    scene.quotas.on_image(ClientQuotasImage({ALICE: {"producer_byte_rate": 500.0}}))
    assert scene.quotas.produce.charge("alice", "app", 0, 0) == 10_000
    scene.quotas.on_image(ClientQuotasImage({}))
    assert not scene.quotas.metering


def test_made_up_client_ids_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "METERS_MAX", 100)
    scene = Scene({EVERY_CLIENT: {"producer_byte_rate": 1.0}})
    for number in range(1000):
        scene.quotas.produce.charge("alice", f"made-up-{number}", 10, 0)
        assert scene.quotas.produce.charge("alice", "steady", 10, 0) > 0 or number == 0
    assert len(scene.quotas.produce._meters) == 100


@pytest.mark.parametrize(
    ("api_key", "strict_from"),
    [(ApiKey.CREATE_TOPICS, 6), (ApiKey.DELETE_TOPICS, 5), (ApiKey.CREATE_PARTITIONS, 3)],
)
def test_changes_beyond_the_quota_are_refused_to_those_who_know_the_error(
    api_key: ApiKey, strict_from: int
) -> None:
    scene = Scene({ALICE: {"controller_mutation_rate": 1.0}})
    first = scene.mutations(strict_from, api_key)
    # What is there may be exceeded once; then there is a debt, and everything is refused.
    assert first.take(12) is ErrorCode.NONE
    assert first.wait_ms == 0
    assert first.take(1) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert first.wait_ms == 1000
    older = scene.mutations(strict_from - 1, api_key)
    assert older.take(1) is ErrorCode.NONE
    assert older.wait_ms == 2000
    scene.now = 2000
    assert scene.mutations(strict_from, api_key).take(1) is ErrorCode.NONE


def test_only_what_makes_or_takes_away_partitions_uses_up_changes() -> None:
    scene = Scene({ALICE: {"controller_mutation_rate": 1.0}})
    assert scene.mutations(api_key=ApiKey.CREATE_ACLS) is None
