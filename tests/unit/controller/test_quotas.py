"""What users, client ids and addresses may use."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.controller import quotas
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_client_quotas as made

from .stage import Stage

ANN = (("user", "ann"),)


def entry(
    entity: tuple[tuple[str, str | None], ...], **quotas: float | None
) -> made.AlterClientQuotasRequestEntryData:
    return made.AlterClientQuotasRequestEntryData(
        entity=[
            made.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        ops=[
            made.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )


def alter(stage: Stage, *entries: Any, **fields: Any) -> list[ErrorCode]:
    request = made.AlterClientQuotasRequest(entries=list(entries), **fields)
    response = stage.ask(ApiKey.ALTER_CLIENT_QUOTAS, request)
    for asked, told in zip(entries, response.entries, strict=True):
        assert [(p.entity_type, p.entity_name) for p in told.entity] == [
            (p.entity_type, p.entity_name) for p in asked.entity
        ]
        assert bool(told.error_code) == (told.error_message is not None)
    return [ErrorCode(told.error_code) for told in response.entries]


def test_quotas_are_set_changed_and_taken_away() -> None:
    stage = Stage(1)
    both = (("client-id", None), ("user", "ann"))
    assert alter(
        stage,
        entry(ANN, producer_byte_rate=1000.0, request_percentage=12.5),
        entry((both[1], both[0]), consumer_byte_rate=5.0),
        entry((("ip", "10.0.0.1"),), connection_creation_rate=3.0),
    ) == [0, 0, 0]
    assert stage.image.client_quotas.entities == {
        ANN: {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        both: {"consumer_byte_rate": 5.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 3.0},
    }
    assert alter(stage, entry(ANN, producer_byte_rate=None, request_percentage=99.0)) == [0]
    assert stage.image.client_quotas.entities[ANN] == {"request_percentage": 99.0}


def test_what_stays_as_it_is_needs_no_record() -> None:
    stage = Stage(1)
    alter(stage, entry(ANN, producer_byte_rate=1000.0))
    same = made.AlterClientQuotasRequest(
        entries=[entry(ANN, producer_byte_rate=1000.0, consumer_byte_rate=None)]
    )
    assert not stage.decide(ApiKey.ALTER_CLIENT_QUOTAS, same).records


def test_a_trial_changes_nothing() -> None:
    stage = Stage(1)
    assert alter(stage, entry(ANN, producer_byte_rate=1.0), validate_only=True) == [0]
    assert not stage.image.client_quotas.entities


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ((), {"producer_byte_rate": 1.0}),
        ((("planet", "earth"),), {"producer_byte_rate": 1.0}),
        ((("user", ""),), {"producer_byte_rate": 1.0}),
        ((("user", "a"), ("user", "b")), {"producer_byte_rate": 1.0}),
        ((("user", "a"), ("ip", "10.0.0.1")), {"connection_creation_rate": 1.0}),
        ((("ip", "no-such-host"),), {"connection_creation_rate": 1.0}),
        ((("ip", "10.0.0.1"),), {"producer_byte_rate": 1.0}),
        (ANN, {"connection_creation_rate": 1.0}),
        (ANN, {"beer_rate": 1.0}),
        (ANN, {"producer_byte_rate": -1.0}),
        (ANN, {"producer_byte_rate": 1.5}),
        (ANN, {"producer_byte_rate": 1e30}),
        (ANN, {"producer_byte_rate": float("nan")}),
        (ANN, {"request_percentage": float("inf")}),
        ((("ip", None),), {"connection_creation_rate": 2.0**31}),
    ],
)
def test_a_quota_that_cannot_be_is_refused(
    entity: tuple[tuple[str, str | None], ...], quotas: dict[str, float]
) -> None:
    stage = Stage(1)
    fine = entry((("user", "bob"),), producer_byte_rate=1.0)
    assert alter(stage, entry(entity, **quotas), fine) == [ErrorCode.INVALID_REQUEST, 0]
    assert list(stage.image.client_quotas.entities) == [(("user", "bob"),)]


def test_an_entity_or_a_quota_that_is_named_twice_is_refused() -> None:
    stage = Stage(1)
    once = entry(ANN, producer_byte_rate=1.0)
    again = entry(ANN, producer_byte_rate=2.0)
    assert alter(stage, once, again) == [0, ErrorCode.INVALID_REQUEST]
    twice = entry(ANN, consumer_byte_rate=1.0)
    twice.ops *= 2
    assert alter(stage, twice) == [ErrorCode.INVALID_REQUEST]
    assert stage.image.client_quotas.entities[ANN] == {"producer_byte_rate": 1.0}


def test_there_is_an_end_to_how_many_entities_have_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "ENTITIES_MAX", 2)
    stage = Stage(1)
    ann, bob, eve = (
        entry((("user", name),), producer_byte_rate=1.0) for name in ("ann", "bob", "eve")
    )
    full = ErrorCode.POLICY_VIOLATION
    assert alter(stage, ann, bob, eve) == [0, 0, full]
    assert alter(stage, eve, entry(ANN, producer_byte_rate=2.0)) == [full, 0]
    assert alter(stage, entry(ANN, producer_byte_rate=None)) == [0]
    assert alter(stage, eve) == [0]


def test_more_names_than_one_batch_carries_are_refused() -> None:
    stage = Stage(1)
    large = [
        entry((("user", f"{number}" + "x" * 30_000),), producer_byte_rate=1.0)
        for number in range(200)
    ]
    errors = alter(stage, *large)
    assert errors[0] == ErrorCode.NONE
    assert errors[-1] == ErrorCode.POLICY_VIOLATION
