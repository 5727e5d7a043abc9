from __future__ import annotations

import subprocess
import sys

from codegen.names import snake
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.registry import API, advertised


def test_every_api_has_the_classes_of_its_key() -> None:
    for key, spec in API.items():
        for cls in (spec.request_class, spec.response_class):
            assert issubclass(cls, Message)
            assert key == cls.API_KEY
            assert spec.codec_versions == cls.VERSIONS
            assert spec.flexible_from == cls.FLEXIBLE_FROM


def test_keys_have_names() -> None:
    assert {it.name: it.value for it in ApiKey} == {
        snake(spec.name).upper(): key for key, spec in API.items()
    }


def test_versions_are_those_that_kafka_advertises() -> None:
    shown = {spec.name: (spec.versions[0], spec.versions[-1]) for spec in API.values()}
    assert shown["Produce"] == (0, 13), "old librdkafka wants to see 0"
    assert shown["InitProducerId"] == (0, 5), "6 is not stable"
    assert shown["Fetch"] == (4, 18)
    assert shown["ApiVersions"] == (0, 4)
    assert shown["ShareFetch"] == (1, 2)


def test_listeners_have_the_apis_that_kafka_gives_them() -> None:
    broker = {spec.key for spec in advertised("broker")}
    controller = {spec.key for spec in advertised("controller")}
    # 75 APIs and telemetry, which Kafka shows only when somebody receives it.
    assert len(broker) == 77
    assert {71, 72} < broker
    assert {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82} == controller - broker
    assert set(API) - (broker | controller) == {
        ApiKey.DESCRIBE_DELAYED_RECORDS,
        ApiKey.CANCEL_DELAYED_RECORDS,
    }, "Penstock's own are served, and not shown"


def test_the_removed_zookeeper_apis_are_gone() -> None:
    assert not {4, 5, 6, 7} & set(API)


def test_knowing_the_apis_does_not_load_their_codecs() -> None:
    code = (
        "import sys, penstock.protocol.headers;"
        "print([it for it in sys.modules if it.startswith('penstock.protocol.generated.')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['penstock.protocol.generated.api_table']"
