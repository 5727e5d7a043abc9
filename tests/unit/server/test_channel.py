"""How a node asks the active controller, whoever it is: in virtual time, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.net.peer import PeerLost
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.headers import read_request_header
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader
from penstock.server.call import Call
from penstock.server.channel import ControllerChannel
from penstock.server.dispatch import encode
from penstock.testing.sim.loop import SimulatedClock, SimulatedLoop, simulate

HEARTBEAT = int(ApiKey.BROKER_HEARTBEAT)
CREATE = int(ApiKey.CREATE_TOPICS)
ADDRESSES = {number: ("host", 9090 + number) for number in (1, 2, 3)}
DONE = BrokerHeartbeatResponse()

Answer = Callable[[Message], Coroutine[Any, Any, Any]]


class World:
    """Node 1, and controllers elsewhere that answer as a test says."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.active = False
        self.raft = SimpleNamespace(leader=NO_NODE, node_id=1, epoch=1)
        self.answers: dict[int, Answer] = {}
        self.asked: list[tuple[int, str, Message]] = []
        self.handled: list[tuple[int, Any, int]] = []
        self.closed: list[tuple[int, str]] = []
        where = ADDRESSES.get
        local: Any = self
        self.channel = ControllerChannel(local, self, where, SimulatedClock(loop), 10)

    async def handle(self, api_key: int, request: Any, *, version: int, **_: Any) -> Any:
        if not self.active:
            raise NotLeader("not here")
        self.handled.append((api_key, request, version))
        return "near"

    def caller(self, host: str, port: int, client_id: str) -> Line:
        return Line(self, port - 9090, client_id)


class Line:
    def __init__(self, world: World, node: int, name: str) -> None:
        self._world = world
        self._node = node
        self._name = name

    async def ask(self, request: Message, seconds_max: float, version: int | None = None) -> Any:
        self._world.asked.append((self._node, self._name, request))
        try:
            async with asyncio.timeout(seconds_max):
                return await self._world.answers[self._node](request)
        except TimeoutError:
            raise PeerLost("no answer") from None

    def close(self) -> None:
        self._world.closed.append((self._node, self._name))


def in_a_world(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop()

    async def told() -> None:
        await story(World(loop))

    simulate(told(), loop)


async def done(_: Message) -> Any:
    return DONE


async def never(_: Message) -> Any:
    await asyncio.sleep(1e6)


async def lost(_: Message) -> Any:
    raise PeerLost("nobody there")


async def standby(_: Message) -> Any:
    return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)


def beat(world: World, **options: Any) -> Coroutine[Any, Any, Any]:
    return world.channel.handle(HEARTBEAT, BrokerHeartbeatRequest(), **options)


def test_the_controller_in_this_process_is_asked_directly() -> None:
    async def story(world: World) -> None:
        world.active, world.raft.leader = True, 1
        assert await world.channel.handle(CREATE, "request", version=5) == "near"
        assert world.handled == [(CREATE, "request", 5)]
        assert not world.asked

    in_a_world(story)


def test_a_controller_elsewhere_is_asked_over_the_network() -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers[2] = done
        assert await beat(world) is DONE
        assert [(node, name) for node, name, _ in world.asked] == [(2, "controller-1-heartbeats")]
        await beat(world)
        assert world.loop.time() == 0, "a connection that works is kept and asked at once"

    in_a_world(story)


def test_what_takes_long_does_not_hold_up_heartbeats() -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers[2] = done
        for key in (ApiKey.BROKER_HEARTBEAT, ApiKey.ALTER_PARTITION, ApiKey.CREATE_TOPICS):
            await world.channel.handle(int(key), BrokerHeartbeatRequest())
        assert len({name for _, name, _ in world.asked}) == 3

    in_a_world(story)


def test_it_is_waited_for_an_election() -> None:
    async def story(world: World) -> None:
        world.answers[3] = done

        def elect() -> None:
            world.raft.leader = 3

        world.loop.call_later(2, elect)
        assert await beat(world) is DONE
        assert 2 <= world.loop.time() < 2.5

    in_a_world(story)


def test_without_a_controller_the_time_is_up_one_day() -> None:
    async def story(world: World) -> None:
        with pytest.raises(NotLeader, match="no active controller in 10 s: nobody leads"):
            await beat(world)
        assert 9 < world.loop.time() <= 10
        before = world.loop.time()
        with pytest.raises(NotLeader, match="in 3 s"):
            await beat(world, seconds_max=3)
        assert world.loop.time() - before <= 3

    in_a_world(story)


@pytest.mark.parametrize("first", [lost, standby], ids=["lost", "standby"])
def test_who_does_not_decide_is_asked_again_until_somebody_does(first: Answer) -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers = {2: first, 3: done}

        def elect() -> None:
            world.raft.leader = 3

        world.loop.call_later(1, elect)
        assert await beat(world) is DONE
        assert len(world.asked) < 15, "it asks again in its time, and does not hammer"
        assert world.closed == [(2, "controller-1-heartbeats")]

    in_a_world(story)


def test_a_controller_that_hangs_is_left_when_another_takes_over() -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers = {2: never, 3: done}

        def elect() -> None:
            world.raft.leader = 3

        world.loop.call_later(4, elect)
        assert await beat(world) is DONE
        assert world.loop.time() < 4.5

    in_a_world(story)


def test_a_controller_that_started_again_and_leads_again_is_asked_again() -> None:
    """What its former self was asked is gone with it, and nobody may have said so."""

    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers = {2: never}

        def elect() -> None:
            world.raft.epoch += 1
            world.answers = {2: done}

        world.loop.call_later(4, elect)
        assert await beat(world) is DONE
        assert world.loop.time() < 4.5

    in_a_world(story)


def test_this_node_may_be_elected_meanwhile() -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers[2] = lost

        def elect() -> None:
            world.active, world.raft.leader = True, 1

        world.loop.call_later(1, elect)
        assert await beat(world) == "near"

    in_a_world(story)


def test_a_node_that_stops_looks_for_nobody_any_more() -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers[2] = lost
        asking = asyncio.ensure_future(beat(world))
        await asyncio.sleep(1)
        world.channel.close()
        with pytest.raises(NotLeader, match="the node stops"):
            await asking
        assert world.loop.time() < 1.5

    in_a_world(story)


# -- envelopes ------------------------------------------------------------------------------------

CLIENT: Any = SimpleNamespace(listener_name="PLAINTEXT", peer=("192.0.2.7", 4711), gate=None)


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=3)])


def controller(world: World, error: ErrorCode = ErrorCode.NONE) -> Answer:
    """Opens an envelope as a controller does."""

    async def answer(request: Message) -> Any:
        assert isinstance(request, EnvelopeRequest)
        if error is not ErrorCode.NONE:
            return EnvelopeResponse(error_code=error)
        assert request.client_host_address == bytes((192, 0, 2, 7))
        data = memoryview(request.request_data)
        api_key, version, number, client_id, at = read_request_header(data)
        assert (api_key, number, client_id) == (CREATE, 42, "a client")
        inner, _ = CreateTopicsRequest.read(data, version, at)
        made = CreateTopicsResponse(topics=[CreatableTopicResult(name=inner.topics[0].name)])
        frame = encode(API[CREATE], Call(CLIENT, CREATE, version, number, None), made)
        assert isinstance(frame, bytearray)
        return EnvelopeResponse(response_data=bytes(frame[4:]))

    return answer


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_what_a_client_asks_travels_in_an_envelope_and_in_its_version(version: int) -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers[2] = controller(world)
        call = Call(CLIENT, CREATE, version, 42, "a client")
        response = await world.channel.handle(CREATE, creation("t"), version=version, call=call)
        assert [each.name for each in response.topics] == ["t"]

    in_a_world(story)


def test_an_envelope_that_comes_back_unopened_looks_for_another_controller() -> None:
    async def story(world: World) -> None:
        world.raft.leader = 2
        refusing = controller(world, ErrorCode.NOT_CONTROLLER)
        world.answers = {2: refusing, 3: controller(world)}

        def elect() -> None:
            world.raft.leader = 3

        world.loop.call_later(1, elect)
        call = Call(CLIENT, CREATE, 7, 42, "a client")
        response = await world.channel.handle(CREATE, creation("t"), version=7, call=call)
        assert response.topics[0].error_code == 0

    in_a_world(story)


def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    async def nonsense(_: Message) -> Any:
        return EnvelopeResponse(response_data=b"\0\0")

    async def story(world: World) -> None:
        world.raft.leader = 2
        world.answers[2] = nonsense
        call = Call(CLIENT, CREATE, 7, 42, "a client")
        with pytest.raises(NotLeader, match="cannot be read"):
            await world.channel.handle(CREATE, creation("t"), version=7, call=call, seconds_max=1)

    in_a_world(story)
