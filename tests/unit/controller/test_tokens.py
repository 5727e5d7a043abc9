"""Delegation tokens: made, renewed, expired and swept away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.controller import tokens
from penstock.controller.decision import TokenSettings
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import create_delegation_token as creating
from penstock.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.generated.metadata_records import FeatureLevelRecord
from penstock.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
from penstock.security.principal import Principal
from penstock.security.tokens import token_hmac
from tests.unit.raft.quorum import Quorum, play

from .stage import Stage
from .test_failover import Controllers

DAY = 86_400_000
SETTINGS = TokenSettings("a key that all nodes share", lifetime_ms_max=7 * DAY, renewal_ms=DAY)
ANN, BOB, EVE = (Principal(name) for name in ("ann", "bob", "eve"))


def stage_for(principal: Principal = ANN) -> Stage:
    stage = Stage(1, tokens=SETTINGS)
    stage.principal = principal
    return stage


def create(stage: Stage, *renewers: str, **fields: Any) -> creating.CreateDelegationTokenResponse:
    request = creating.CreateDelegationTokenRequest(
        renewers=[
            creating.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in renewers)
        ],
        **{"owner_principal_type": None, "owner_principal_name": None, **fields},
    )
    response = stage.ask(ApiKey.CREATE_DELEGATION_TOKEN, request)
    assert isinstance(response, creating.CreateDelegationTokenResponse)
    return response


def renew(stage: Stage, hmac: bytes, period: int = -1) -> tuple[ErrorCode, int]:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
    response = stage.ask(ApiKey.RENEW_DELEGATION_TOKEN, request)
    return ErrorCode(response.error_code), response.expiry_timestamp_ms - stage.wall


def expire(stage: Stage, hmac: bytes, period: int = -1) -> tuple[ErrorCode, int]:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
    response = stage.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, request)
    return ErrorCode(response.error_code), response.expiry_timestamp_ms - stage.wall


def standing(stage: Stage) -> dict[str, Any]:
    return dict(stage.image.delegation_tokens.by_id)


def test_a_token_stands_for_who_asks() -> None:
    stage = stage_for(ANN)
    made = create(stage, "User:bob")
    assert made.error_code == 0
    assert (made.principal_type, made.principal_name) == ("User", "ann")
    assert made.hmac == token_hmac(SETTINGS.secret, made.token_id)
    assert made.issue_timestamp_ms == stage.wall
    assert made.expiry_timestamp_ms == stage.wall + DAY
    assert made.max_timestamp_ms == stage.wall + 7 * DAY
    token = standing(stage)[made.token_id]
    assert (token.owner, token.requester, token.renewers) == ("User:ann", "User:ann", ("User:bob",))


def test_the_secret_of_a_token_stands_nowhere() -> None:
    stage = stage_for()
    made = create(stage)
    out = bytearray()
    for record in stage.image.delegation_tokens.records():
        record.write(0, out)
    assert made.token_id.encode() in bytes(out)
    assert made.hmac not in bytes(out)
    assert SETTINGS.secret not in repr(stage.machine.settings)


def test_a_token_may_be_asked_for_on_behalf_of_another() -> None:
    stage = stage_for(ANN)
    made = create(stage, owner_principal_type="User", owner_principal_name="bob")
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "ann")
    token = standing(stage)[made.token_id]
    assert (token.owner, token.requester) == ("User:bob", "User:ann")
    assert renew(stage, made.hmac)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


@pytest.mark.parametrize(
    ("asked", "given"),
    [(-1, 7 * DAY), (0, 7 * DAY), (1000, 1000), (2 * DAY, 2 * DAY), (30 * DAY, 7 * DAY)],
)
def test_nobody_chooses_a_longer_life_than_the_operator(asked: int, given: int) -> None:
    stage = stage_for()
    made = create(stage, max_lifetime_ms=asked)
    assert made.max_timestamp_ms - stage.wall == given
    assert made.expiry_timestamp_ms - stage.wall == min(given, DAY)


def test_only_users_renew() -> None:
    made = create(stage_for(), "User:bob", "Group:all")
    assert made.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (made.token_id, made.hmac, made.issue_timestamp_ms) == ("", b"", -1)


def test_a_token_is_renewed_within_its_life() -> None:
    stage = stage_for()
    hmac = create(stage).hmac
    assert renew(stage, hmac, 1000) == (0, 1000)
    assert renew(stage, hmac, 30 * DAY) == (0, DAY)
    assert renew(stage, hmac) == (0, DAY)
    stage.wall += DAY - 1
    for _ in range(6):
        assert renew(stage, hmac)[0] == 0
        stage.wall += DAY - 1
    error, left = renew(stage, hmac)
    assert (error, left) == (0, 7)  # milliseconds of seven days


@pytest.mark.parametrize("act", [renew, expire])
def test_owner_and_renewers_act_and_nobody_else(act: Any) -> None:
    for principal, error in (
        (ANN, ErrorCode.NONE),
        (BOB, ErrorCode.NONE),
        (EVE, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (Principal("ann", "Group"), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    ):
        stage = stage_for(ANN)
        hmac = create(stage, "User:bob").hmac
        before = standing(stage)
        stage.principal = principal
        assert act(stage, hmac, 1000)[0] == error
        assert (standing(stage) == before) == bool(error)


@pytest.mark.parametrize("act", [renew, expire])
@pytest.mark.parametrize("shown", [b"", b"\x00" * 64, b"x" * 1000])
def test_who_shows_no_secret_finds_no_token(act: Any, shown: bytes) -> None:
    stage = stage_for()
    create(stage)
    assert act(stage, shown)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_can_be_cut_short_or_ended() -> None:
    stage = stage_for()
    made = create(stage)
    assert expire(stage, made.hmac, 5000) == (0, 5000)
    assert expire(stage, made.hmac, 30 * DAY) == (0, 7 * DAY)
    assert expire(stage, made.hmac, 2**63 - 1) == (0, 7 * DAY)
    assert expire(stage, made.hmac, -1) == (0, 0)
    assert not standing(stage)
    assert renew(stage, made.hmac)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_what_has_expired_is_not_revived_but_can_be_taken_away() -> None:
    stage = stage_for()
    hmac = create(stage).hmac
    stage.wall += DAY + 1
    assert renew(stage, hmac)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(stage, hmac, 1000)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(stage, hmac, -1)[0] == ErrorCode.NONE
    assert not standing(stage)


def test_old_tokens_are_swept_away_and_others_stay() -> None:
    stage = stage_for()
    old = create(stage)
    stage.wall += DAY // 2
    new = create(stage)
    assert stage.tick(tokens.sweep_tokens) is None
    stage.wall += DAY // 2 + 1
    decision = stage.tick(tokens.sweep_tokens)
    assert decision is not None and decision.response == tokens.Swept(1, False)
    assert list(standing(stage)) == [new.token_id] != [old.token_id]


@pytest.mark.parametrize("act", [lambda stage, _: create(stage), renew, expire])
def test_without_a_key_there_are_no_tokens(act: Any) -> None:
    answer = act(Stage(1), b"x")
    error = answer[0] if isinstance(answer, tuple) else answer.error_code
    assert error == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_a_cluster_that_is_not_upgraded_yet_has_no_tokens() -> None:
    stage = stage_for()
    stage.take([FeatureLevelRecord(name="metadata.version", feature_level=13)])
    assert create(stage).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert renew(stage, b"x")[0] == expire(stage, b"x")[0] == ErrorCode.UNSUPPORTED_VERSION


def test_there_is_an_end_to_how_many_tokens_one_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_OF_ONE_MAX", 2)
    monkeypatch.setattr(tokens, "TOKENS_MAX", 3)
    stage = stage_for(ANN)
    assert [create(stage).error_code for _ in range(3)] == [0, 0, ErrorCode.POLICY_VIOLATION]
    stage.principal = BOB
    assert [create(stage).error_code for _ in range(2)] == [0, ErrorCode.POLICY_VIOLATION]
    monkeypatch.setattr(tokens, "RENEWERS_MAX", 1)
    assert create(stage, "User:a", "User:b").error_code == ErrorCode.POLICY_VIOLATION


def test_a_controller_that_runs_knows_who_asks_and_sweeps_by_itself(tmp_path: Path) -> None:
    class AnnAsks:
        principal = ANN
        mutations = None

    async def story(quorum: Quorum) -> None:
        settings = TokenSettings("key", renewal_ms=60_000, sweep_seconds=30)
        controllers = Controllers(quorum, session_timeout_ms=1 << 40, tokens=settings)
        await controllers.start_all()
        active = await controllers.active()
        request = creating.CreateDelegationTokenRequest(owner_principal_name=None)
        made = await active.handle(int(ApiKey.CREATE_DELEGATION_TOKEN), request, call=AnnAsks())
        assert (made.error_code, made.principal_name) == (0, "ann")
        await asyncio.sleep(50)
        assert made.token_id in active.image.delegation_tokens.by_id
        await asyncio.sleep(45)
        assert not active.image.delegation_tokens.by_id

    play(tmp_path, story)
