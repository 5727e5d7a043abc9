"""What the controller's answers mean for a broker, as tables."""

from __future__ import annotations

import pytest

from penstock.app.standing import (
    ADVICE,
    Verdict,
    after_heartbeat,
    after_registration,
    is_news,
    is_usurped,
)
from penstock.metadata.cluster import BrokerImage, ClusterImage
from penstock.metadata.image import EMPTY, PARTS, MetadataImage
from penstock.model.errors import ErrorCode

ME, OLD = b"m" * 16, b"o" * 16


def broker(
    number: int,
    incarnation: bytes = ME,
    epoch: int = 5,
    *,
    fenced: bool = False,
    leaving: bool = False,
) -> BrokerImage:
    return BrokerImage(number, incarnation, epoch, (), {}, fenced=fenced, shutting_down=leaving)


def image(*brokers: BrokerImage, offset: int = 1) -> MetadataImage:
    parts = {name: getattr(EMPTY, name) for name in PARTS}
    parts["cluster"] = ClusterImage({each.id: each for each in brokers}, {})
    return MetadataImage(offset, 1, **parts)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ErrorCode.NONE, Verdict.TAKEN),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, Verdict.AGAIN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.AGAIN),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, Verdict.NEVER),
        (ErrorCode.UNSUPPORTED_VERSION, Verdict.NEVER),
        (ErrorCode.INVALID_REGISTRATION, Verdict.NEVER),
    ],
)
def test_after_a_registration(error: ErrorCode, verdict: Verdict) -> None:
    assert after_registration(error) is verdict
    if verdict is Verdict.NEVER:
        assert error in ADVICE


@pytest.mark.parametrize(
    ("error", "usurped", "verdict"),
    [
        (ErrorCode.NONE, False, Verdict.TAKEN),
        (ErrorCode.STALE_BROKER_EPOCH, False, Verdict.REGISTER),
        (ErrorCode.BROKER_ID_NOT_REGISTERED, False, Verdict.REGISTER),
        (ErrorCode.STALE_BROKER_EPOCH, True, Verdict.NEVER),
        (ErrorCode.REQUEST_TIMED_OUT, False, Verdict.AGAIN),
    ],
)
def test_after_a_heartbeat(error: ErrorCode, usurped: bool, verdict: Verdict) -> None:
    assert after_heartbeat(error, usurped) is verdict


@pytest.mark.parametrize(
    ("registered", "usurped"),
    [
        (image(), False),
        (image(broker(1)), False),
        (image(broker(1, OLD, epoch=9)), True),
        # The metadata of this node may be older than its own registration.
        (image(broker(1, OLD, epoch=2)), False),
    ],
)
def test_another_process_that_registered_later_has_the_id(
    registered: MetadataImage, usurped: bool
) -> None:
    assert is_usurped(registered, 1, ME, epoch=5) is usurped


@pytest.mark.parametrize(
    ("before", "now", "fenced", "news"),
    [
        ((broker(1),), (broker(1), broker(2)), False, False),
        ((broker(1),), (broker(1, fenced=True),), False, True),
        ((broker(1),), (broker(1, fenced=True),), True, False),
        ((broker(1),), (), False, True),
        ((broker(1), broker(2)), (broker(1), broker(2, leaving=True)), False, True),
        ((broker(1), broker(2, leaving=True)), (broker(1), broker(2, leaving=True)), False, False),
        ((broker(1), broker(2)), (broker(1, leaving=True), broker(2)), False, False),
    ],
    ids=[
        "another one came",
        "it was fenced",
        "it knows that it is fenced",
        "it was forgotten",
        "another one leaves",
        "that was known",
        "it leaves itself",
    ],
)
def test_what_the_controller_should_hear_about_at_once(
    before: tuple[BrokerImage, ...], now: tuple[BrokerImage, ...], fenced: bool, news: bool
) -> None:
    assert is_news(image(*before), image(*now), 1, fenced=fenced) is news


def test_what_changes_nothing_about_brokers_is_no_news() -> None:
    known = image(broker(1))
    later = MetadataImage(9, 1, **{name: getattr(known, name) for name in PARTS})
    assert not is_news(known, later, 1, fenced=False)
