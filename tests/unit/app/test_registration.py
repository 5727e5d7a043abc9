"""A broker and its controller, in virtual time: joining, staying, being forgotten, leaving."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.app import registration as registration_module
from penstock.app.registration import OutOfTime, Registration, RegistrationRefused
from penstock.app.settings import settings_for_up
from penstock.metadata.cluster import BrokerImage
from penstock.metadata.delta import MetadataDelta
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.raft.driver import NotLeader
from penstock.testing.sim.chance import SeededChance
from penstock.testing.sim.loop import SimulatedLoop, simulate
from tests.unit.app.test_standing import broker as registered
from tests.unit.app.test_standing import image

EPOCH = 40


class World:
    """A broker with the id 1, and a controller that says what a test wants."""

    def __init__(self, loop: SimulatedLoop, **settings: str) -> None:
        self.loop = loop
        self.node_id = 1
        self.cluster_id = "cluster"
        self.config = NodeConfig.of(settings_for_up("/nowhere", "127.0.0.1", 9092, settings))
        self.chance = SeededChance(random.Random(1))
        self.store = SimpleNamespace(clean_broker_epoch=7, directories=[])
        self.image = image()
        self.controller = self
        self.answers: list[ErrorCode] = []
        """To registrations, one after the other; then all are taken."""
        self.beats: list[tuple[float, BrokerHeartbeatRequest]] = []
        self.registrations: list[BrokerRegistrationRequest] = []
        self.on_beat: Callable[[BrokerHeartbeatRequest], BrokerHeartbeatResponse] = _taken
        self.failures: list[BaseException] = []
        self.absent = False
        me: Any = self
        self.registration = Registration(me, [], [b"d" * 16], self.failures.append)

    async def handle(self, api_key: int, request: Any, *, seconds_max: float) -> Any:
        if self.absent:
            await asyncio.sleep(seconds_max)
            raise NotLeader("no active controller")
        await asyncio.sleep(0.001)
        if api_key == ApiKey.BROKER_REGISTRATION:
            return self._register(request)
        assert api_key == ApiKey.BROKER_HEARTBEAT
        self.beats.append((self.loop.time(), request))
        return self.on_beat(request)

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        self.registrations.append(request)
        error = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return BrokerRegistrationResponse(error_code=error)
        epoch = EPOCH + len(self.registrations)
        mine = registered(1, request.incarnation_id, epoch, fenced=True)
        self.loop.call_later(0.01, self.show, mine)
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def show(self, *brokers: BrokerImage) -> None:
        """The metadata that this node sees next."""
        self.image = image(*brokers, offset=max(each.epoch for each in brokers) + 1)
        self.registration.on_image(self.image, MetadataDelta(self.image))


def _taken(_: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=False)


@pytest.fixture(autouse=True)
def without_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_module, "misplaced", lambda _: None)


def in_a_world(story: Callable[[World], Coroutine[Any, Any, None]], **settings: str) -> None:
    loop = SimulatedLoop()

    async def told() -> None:
        await story(World(loop, **settings))

    simulate(told(), loop)


async def joined(world: World) -> None:
    await world.registration.register()
    await world.registration.unfence()


def test_a_broker_is_unfenced_when_it_has_seen_its_own_registration() -> None:
    async def story(world: World) -> None:
        await joined(world)
        (request,) = world.registrations
        assert (request.broker_id, request.previous_broker_epoch) == (1, 7)
        (_, beat), *_ = world.beats
        assert beat.broker_epoch == EPOCH + 1 == world.registration.epoch
        assert beat.current_metadata_offset > EPOCH, "the controller waits for that"
        assert not world.registration.fenced

    in_a_world(story)


def test_a_duplicate_waits_for_the_session_of_the_one_before() -> None:
    async def story(world: World) -> None:
        world.answers = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 12
        await joined(world)
        assert 5 < world.loop.time() < 15
        assert not world.registration.fenced

    in_a_world(story)


def test_a_duplicate_that_stays_ends_the_start_with_advice() -> None:
    async def story(world: World) -> None:
        world.answers = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 1000
        with pytest.raises(RegistrationRefused, match="give each node an id of its own"):
            await world.registration.register()
        assert 50 < world.loop.time() <= 60
        assert len(world.registrations) < 100

    in_a_world(story)


@pytest.mark.parametrize(
    "error", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION]
)
def test_what_will_never_be_taken_is_not_tried_twice(error: ErrorCode) -> None:
    async def story(world: World) -> None:
        world.answers = [error]
        with pytest.raises(RegistrationRefused, match=error.name):
            await world.registration.register()
        assert len(world.registrations) == 1

    in_a_world(story)


def test_without_any_controller_the_start_ends_with_advice() -> None:
    async def story(world: World) -> None:
        world.absent = True
        with pytest.raises(OutOfTime, match="see that most controllers"):
            await world.registration.register()
        assert world.loop.time() == 60

    in_a_world(story)


def test_heartbeats_go_on_through_a_time_without_a_controller() -> None:
    async def story(world: World) -> None:
        await joined(world)
        world.absent = True
        await asyncio.sleep(100)
        world.absent = False
        count = len(world.beats)
        await asyncio.sleep(20)
        assert len(world.beats) > count + 5
        assert not world.failures

    in_a_world(story)


def test_who_is_fenced_while_alive_says_so_at_once() -> None:
    async def story(world: World) -> None:
        await joined(world)
        count = len(world.beats)
        world.show(registered(1, world.registration.incarnation, EPOCH + 1, fenced=True))
        await asyncio.sleep(0.1)
        assert len(world.beats) == count + 1

    in_a_world(story)


def test_another_one_that_leaves_need_not_wait_for_the_next_heartbeat() -> None:
    async def story(world: World) -> None:
        await joined(world)
        mine = registered(1, world.registration.incarnation, EPOCH + 1)
        world.show(mine, registered(2, epoch=EPOCH + 5, leaving=True))
        count = len(world.beats)
        await asyncio.sleep(0.1)
        assert len(world.beats) == count + 1
        assert world.beats[-1][1].current_metadata_offset > EPOCH + 5

    in_a_world(story)


@pytest.mark.parametrize(
    "error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED]
)
def test_a_broker_that_the_controller_forgot_registers_anew(error: ErrorCode) -> None:
    async def story(world: World) -> None:
        await joined(world)
        first = world.registration.epoch

        def forgotten(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
            stale = request.broker_epoch == first
            return BrokerHeartbeatResponse(error_code=error if stale else 0, is_fenced=False)

        world.on_beat = forgotten
        await asyncio.sleep(3)
        assert world.registration.epoch == EPOCH + 2
        assert world.registrations[-1].previous_broker_epoch == first, "it lost nothing"
        assert not world.registration.fenced
        assert not world.failures

    in_a_world(story)


def test_a_broker_whose_id_another_process_took_gives_up() -> None:
    async def story(world: World) -> None:
        await joined(world)
        error = ErrorCode.STALE_BROKER_EPOCH
        world.on_beat = lambda _: BrokerHeartbeatResponse(error_code=error)
        world.show(registered(1, b"x" * 16, EPOCH + 9))
        await asyncio.sleep(3)
        (failure,) = world.failures
        assert "another process has registered as broker 1" in str(failure)
        assert len(world.registrations) == 1

    in_a_world(story)


# -- leaving --------------------------------------------------------------------------------------


async def joined_by_another(world: World) -> None:
    await joined(world)
    mine = registered(1, world.registration.incarnation, EPOCH + 1)
    world.show(mine, registered(2, epoch=EPOCH + 2))


def test_who_leaves_asks_until_it_may() -> None:
    async def story(world: World) -> None:
        await joined_by_another(world)
        began = world.loop.time()

        def handing_over(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
            assert request.want_shut_down
            done = world.loop.time() > began + 12
            return BrokerHeartbeatResponse(is_fenced=done, should_shut_down=done)

        world.on_beat = handing_over
        await world.registration.leave()
        assert 12 < world.loop.time() - began < 13
        count = len(world.beats)
        await asyncio.sleep(10)
        assert len(world.beats) == count, "it is silent from then on"

    in_a_world(story)


def test_who_is_alone_has_nobody_to_hand_over_to() -> None:
    async def story(world: World) -> None:
        await joined(world)
        count = len(world.beats)
        await world.registration.leave()
        assert len(world.beats) == count

    in_a_world(story)


def test_nobody_waits_long_for_a_controller_that_is_gone_too() -> None:
    async def story(world: World) -> None:
        await joined_by_another(world)
        world.absent = True
        began = world.loop.time()
        await world.registration.leave()
        assert 4 < world.loop.time() - began < 6

    in_a_world(story)


def test_controlled_shutdown_can_be_switched_off() -> None:
    async def story(world: World) -> None:
        await joined_by_another(world)
        world.on_beat = lambda _: pytest.fail("asked all the same")
        await world.registration.leave()

    in_a_world(story, **{"controlled.shutdown.enable": "false"})
