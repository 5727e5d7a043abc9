"""What may be committed, and what is written down."""

from __future__ import annotations

import pytest

from penstock.coordination.effects import Effects, Moment
from penstock.coordination.group.offsets import committing
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from tests.unit.coordination.offsets.desk import NOON, TOPIC_ID, Desk


def test_a_commit_without_a_member_makes_a_group_and_is_found_again() -> None:
    desk = Desk()
    assert desk.commit("g", 7, metadata="note") == ErrorCode.NONE
    found = desk.committed("g")
    assert found is not None
    assert (found.offset, found.metadata, found.timestamp, found.topic_id) == (
        7,
        "note",
        NOON,
        TOPIC_ID,
    )
    assert desk.shard.groups["g"].is_empty


def test_a_commit_that_is_not_taken_by_the_log_leaves_no_group_behind() -> None:
    desk = Desk()
    replayed = desk.replay
    desk.replay = lambda out: None  # type: ignore[method-assign]
    desk.commit("g", 7)
    desk.replay = replayed  # type: ignore[method-assign]
    assert "g" not in desk.shard.groups
    assert desk.offset("g") is None


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_a_group_that_is_gone_is_told_so_in_its_own_words(
    version: int, error: ErrorCode
) -> None:
    desk = Desk()
    assert desk.commit("g", 7, member_id="m", generation=3, version=version) == error
    assert desk.offset("g") is None


def test_a_shard_holds_so_many_groups_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "GROUPS_MAX", 2)
    desk = Desk()
    assert [desk.commit(name, 1) for name in "abc"] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ]
    assert desk.commit("c", 1, producer=5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.commit("a", 2) == ErrorCode.NONE, "those that are there go on"
    assert set(desk.shard.groups) == {"a", "b"}


def test_a_transactional_member_of_a_group_that_is_gone_has_an_illegal_generation() -> None:
    desk = Desk()
    error = desk.commit("g", 7, member_id="m", generation=3, producer=5)
    assert error == ErrorCode.ILLEGAL_GENERATION


def test_a_stale_epoch_is_an_illegal_generation_to_a_transactional_producer() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.shard.groups["g"] = Stale()  # type: ignore[assignment]
    assert desk.commit("g", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert desk.commit("g", 2, producer=5) == ErrorCode.ILLEGAL_GENERATION
    assert desk.offset("g") == 1


class Stale:
    """A group in which every member is behind."""

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
        version: int,
        at: Moment,
        out: Effects,
    ) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH


def test_metadata_has_a_bound_in_javas_characters() -> None:
    desk = Desk(offset_metadata_max_bytes="10")
    for metadata in ("x" * 10, "ä" * 10, "😀" * 5):
        assert desk.commit("g", 1, metadata=metadata) == ErrorCode.NONE
    for metadata in ("x" * 11, "ä" * 11, "😀" * 5 + "x", "😀" * 6):
        assert desk.commit("g", 2, metadata=metadata) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert desk.offset("g") == 1


def test_an_expiry_that_an_old_client_asks_for_is_written_in_the_layout_that_has_it() -> None:
    desk = Desk()
    written = []
    replay = desk.replay
    desk.replay = lambda out: (written.extend(out.records), replay(out))  # type: ignore[func-returns-value,method-assign,assignment]
    desk.commit("g", 1)
    desk.commit("g", 2, retention_ms=5000)
    assert [record.version for record in written] == [4, 1]
    found = desk.committed("g")
    assert found is not None and found.expires == NOON + 5000
    assert found.topic_id == ZERO_UUID, "which that layout cannot hold: a restart would forget it"
