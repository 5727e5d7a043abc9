"""What goes to other brokers goes together, and each part hears what came of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.txn.adding import Participation, Verdict
from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated import add_partitions_to_txn as adding
from penstock.protocol.generated import write_txn_markers as writing
from penstock.server.txn_markers import Marker
from penstock.server.txn_questions import CoordinatorQuestions, Inquiry
from penstock.server.txn_remote_markers import Letter, RemoteMarkers

COMMIT = Marker(7, 0, 3, True, 2)


class Neighbours:
    """Brokers that answer when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Any]] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.hung_up: list[tuple[int, str]] = []

    async def ask(self, node_id: int, request: Any, seconds_max: float, purpose: str) -> Any:
        assert seconds_max > 0 and purpose
        self.asked.append((node_id, request))
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def hang_up(self, node_id: int, purpose: str) -> None:
        self.hung_up.append((node_id, purpose))
        for (asked, _), answer in zip(self.asked, self.answers, strict=True):
            if asked == node_id and not answer.done():
                answer.set_exception(PeerLost("hung up"))


def broker_with(neighbours: Neighbours) -> Any:
    return SimpleNamespace(
        loop=asyncio.get_running_loop(),
        config=SimpleNamespace(get_int=lambda _: 30_000),
        neighbours=neighbours,
    )


def all_written(request: writing.WriteTxnMarkersRequest, error: int = 0) -> Any:
    """What a broker answers that treats all markers alike."""
    return writing.WriteTxnMarkersResponse(
        markers=[
            writing.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    writing.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            writing.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def all_told(request: adding.AddPartitionsToTxnRequest, error: int = 0) -> Any:
    """What a coordinator answers that treats all partitions alike."""
    return adding.AddPartitionsToTxnResponse(
        results_by_transaction=[
            adding.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    adding.AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            adding.AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=error
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.transactions
        ]
    )


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_comes_up_in_one_turn_goes_in_one_request_and_the_rest_in_the_next() -> None:
    neighbours = Neighbours()
    markers = RemoteMarkers(broker_with(neighbours))
    first = [markers.send(2, "t", index, COMMIT) for index in range(3)]
    elsewhere = markers.send(3, "t", 3, COMMIT)
    await turn()
    assert [node for node, _ in neighbours.asked] == [2, 3]
    later = [markers.send(2, "t", index, COMMIT) for index in (4, 5)]
    await turn()
    assert len(neighbours.asked) == 2, "one request at a time to each broker"
    neighbours.answers[0].set_result(all_written(neighbours.asked[0][1]))
    await turn()
    assert [it.result() for it in first] == [ErrorCode.NONE] * 3
    assert not elsewhere.done()
    request = neighbours.asked[2][1]
    assert request.markers[0].topics[0].partition_indexes == [4, 5]
    assert (request.markers[0].coordinator_epoch, request.markers[0].transaction_version) == (3, 2)
    neighbours.answers[2].set_result(all_written(request, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await turn()
    assert [it.result() for it in later] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


async def test_a_lost_answer_is_told_and_the_next_request_goes_out() -> None:
    neighbours = Neighbours()
    markers = RemoteMarkers(broker_with(neighbours))
    lost = markers.send(2, "t", 0, COMMIT)
    await turn()
    later = markers.send(2, "t", 1, COMMIT)
    neighbours.answers[0].set_exception(PeerLost("hung up"))
    await turn()
    assert lost.result() is ErrorCode.NETWORK_EXCEPTION
    neighbours.answers[1].set_result(all_written(neighbours.asked[1][1]))
    await turn()
    assert later.result() is ErrorCode.NONE
    once_more = markers.send(2, "t", 2, COMMIT)
    await turn()
    neighbours.answers[2].set_result(all_written(neighbours.asked[2][1]))
    await turn()
    assert once_more.result() is ErrorCode.NONE


async def test_a_broker_that_is_taken_for_dead_is_not_waited_for() -> None:
    neighbours = Neighbours()
    markers = RemoteMarkers(broker_with(neighbours))
    answers = [markers.send(node_id, "t", 0, COMMIT) for node_id in (2, 3, 4)]
    await turn()
    brokers = {2: SimpleNamespace(fenced=True), 3: SimpleNamespace(fenced=False)}
    image: Any = SimpleNamespace(cluster=SimpleNamespace(brokers=brokers))
    markers.on_image(image)
    await turn()
    assert neighbours.hung_up == [(2, "markers"), (4, "markers")]
    assert [it.done() for it in answers] == [True, False, True]


async def test_what_a_broker_does_not_mention_or_says_in_words_of_its_own_is_not_done() -> None:
    neighbours = Neighbours()
    markers = RemoteMarkers(broker_with(neighbours))
    asked = [markers.send(2, "t", index, COMMIT) for index in range(2)]
    await turn()
    answer = all_written(neighbours.asked[0][1], 12_345)
    answer.markers[0].topics[0].partitions.pop()
    neighbours.answers[0].set_result(answer)
    await turn()
    assert [it.result() for it in asked] == [
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    ]


async def test_too_much_for_one_broker_is_refused_and_not_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.server.rounds.ITEMS_MAX", 2)
    markers = RemoteMarkers(broker_with(Neighbours()))
    answers = [markers.send(2, "t", index, COMMIT) for index in range(3)]
    assert [it.done() for it in answers] == [False, False, True]
    markers.close()
    assert markers.send(2, "t", 9, COMMIT).result() is ErrorCode.NETWORK_EXCEPTION


async def test_questions_about_one_transaction_go_together_and_each_gets_its_own_verdict() -> None:
    neighbours = Neighbours()
    questions = CoordinatorQuestions(broker_with(neighbours))

    def ask(partitions: list[tuple[str, int]], epoch: int = 0) -> asyncio.Future[Verdict]:
        return questions.ask(2, Participation("x", 7, epoch, partitions, 2), verify_only=True)

    one, two = ask([("t", 0), ("u", 1)]), ask([("t", 1), ("t", 0)])
    of_another_epoch = ask([("t", 0)], epoch=1)
    await turn()
    (asked,) = neighbours.asked[0][1].transactions
    assert [(it.name, it.partitions) for it in asked.topics] == [("t", [0, 1]), ("u", [1])]
    answer = all_told(neighbours.asked[0][1])
    topic = answer.results_by_transaction[0].topic_results[1]
    topic.results_by_partition[0].partition_error_code = ErrorCode.TRANSACTION_ABORTABLE
    neighbours.answers[0].set_result(answer)
    await turn()
    assert one.result() == Verdict(ErrorCode.TRANSACTION_ABORTABLE, frozenset([("u", 1)]))
    assert two.result().error is ErrorCode.NONE
    refused = all_told(neighbours.asked[1][1], ErrorCode.PRODUCER_FENCED)
    neighbours.answers[1].set_result(refused)
    await turn()
    assert of_another_epoch.result() == Verdict(ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("whole", "each", "verdict"),
    [
        (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (
            ErrorCode.NONE,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    ],
)
async def test_a_coordinators_refusal_is_passed_on(
    whole: ErrorCode, each: ErrorCode, verdict: ErrorCode
) -> None:
    neighbours = Neighbours()
    questions = CoordinatorQuestions(broker_with(neighbours))
    answer = questions.ask(2, Participation("x", 7, 0, [("t", 0)]), verify_only=False)
    await turn()
    told = all_told(neighbours.asked[0][1], each)
    told.error_code = whole
    neighbours.answers[0].set_result(told)
    await turn()
    assert answer.result() == Verdict(verdict)


MARKERS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from("tu"), st.integers(0, 2))
)
QUESTIONS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 2), st.booleans(), st.integers(0, 2))
)


@given(wanted=MARKERS)
def test_every_marker_is_sent_and_no_request_names_a_producer_twice(wanted: list[Any]) -> None:
    trade: Any = RemoteMarkers.__new__(RemoteMarkers)
    future: Any = None
    left = [
        Letter((topic, index), Marker(producer, epoch, 0, True, 2), future)
        for producer, epoch, topic, index in wanted
    ]
    sent = []
    while left:
        request, taken = trade.compose(left)
        ids = [marker.producer_id for marker in request.markers]
        assert taken and taken[0] is left[0] and len(ids) == len(set(ids))
        sent += [
            (marker.producer_id, marker.producer_epoch, topic.name, index)
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        left = [each for each in left if not any(each is it for it in taken)]
    assert sorted(sent) == sorted(wanted)


@given(wanted=QUESTIONS)
def test_every_question_is_asked_and_no_request_names_a_transaction_twice(
    wanted: list[Any],
) -> None:
    trade: Any = CoordinatorQuestions.__new__(CoordinatorQuestions)
    future: Any = None
    left = [
        Inquiry(Participation(name, 1, epoch, [("t", index)]), verify_only, future)
        for name, epoch, verify_only, index in wanted
    ]
    asked = set()
    while left:
        request, taken = trade.compose(left)
        names = [each.transactional_id for each in request.transactions]
        assert taken and taken[0] is left[0] and len(names) == len(set(names))
        asked |= {
            (each.transactional_id, each.producer_epoch, each.verify_only, index)
            for each in request.transactions
            for topic in each.topics
            for index in topic.partitions
        }
        left = [each for each in left if not any(each is it for it in taken)]
    assert asked == set(wanted)
