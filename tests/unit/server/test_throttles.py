"""Throttles follow the metadata: rates of brokers, replicas of topics."""

from __future__ import annotations

from penstock.app.settings import settings_for_up
from penstock.metadata.configs import BROKER, TOPIC
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.model.config.node import NodeConfig
from penstock.protocol.generated.metadata_records import ConfigRecord
from penstock.replica.throttle import UNBOUNDED
from penstock.server.throttles import Throttles

FOLLOWERS = "follower.replication.throttled.replicas"
LEADERS = "leader.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"


class Scene:
    """Throttles of broker 1, and an image that changes under them."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY
        self.throttles = Throttles(NodeConfig.of(settings_for_up("/data", "localhost", 0, {})))

    def set(self, kind: int, name: str, key: str, value: str | None) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
        self.image = delta.apply(self.image.offset + 1, 0)
        self.throttles.on_image(self.image, delta)


def test_a_brokers_own_rate_goes_before_that_of_all_brokers() -> None:
    scene = Scene()
    assert scene.throttles.follower.rate_max == UNBOUNDED
    scene.set(BROKER, "", RATE, "1000")
    assert scene.throttles.follower.rate_max == 1000
    scene.set(BROKER, "1", RATE, "500")
    scene.set(BROKER, "2", RATE, "7")
    assert scene.throttles.follower.rate_max == 500
    scene.set(BROKER, "1", RATE, None)
    assert scene.throttles.follower.rate_max == 1000
    assert scene.throttles.leader.rate_max == UNBOUNDED


def test_a_topic_lists_its_throttled_replicas_for_either_side() -> None:
    scene = Scene()
    scene.set(TOPIC, "t", FOLLOWERS, "0:1,1:2,3:1")
    scene.set(TOPIC, "t", LEADERS, "*")
    follower, leader = scene.throttles.follower, scene.throttles.leader
    assert [follower.concerns("t", index) for index in range(4)] == [True, False, False, True]
    assert leader.concerns("t", 99)
    scene.set(TOPIC, "t", FOLLOWERS, None)
    assert not follower.active
    assert leader.active


def test_nonsense_from_another_make_of_controller_throttles_nothing() -> None:
    scene = Scene()
    scene.set(TOPIC, "t", FOLLOWERS, "none,x:y")
    scene.set(BROKER, "", RATE, "fast")
    assert not scene.throttles.follower.active
    assert scene.throttles.follower.rate_max == UNBOUNDED
