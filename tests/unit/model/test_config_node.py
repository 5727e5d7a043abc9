"""A node's configuration: typed access, what keys say together, and problems reported together."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.config import ConfigProblems, Listener, NodeConfig, Voter

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}
BROKER = {
    **COMBINED,
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://:9092",
}
CONTROLLER = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://:9093"}


def node(**changes: str) -> NodeConfig:
    return NodeConfig.of({**COMBINED, **_dotted(changes)})


def problems(settings: dict[str, str], **changes: str) -> str:
    with pytest.raises(ConfigProblems) as caught:
        NodeConfig.of({**settings, **_dotted(changes)})
    return str(caught.value)


def _dotted(changes: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in changes.items()}


# -- typed access ---------------------------------------------------------------------------------


def test_what_is_written_wins_over_the_default() -> None:
    config = node(num_partitions="3")
    assert config["num.partitions"] == 3
    assert config.get_int("num.partitions") == 3
    assert config.is_set("num.partitions")
    assert config.get_int("message.max.bytes") == 1_048_588
    assert not config.is_set("message.max.bytes")
    assert config.get_bool("auto.create.topics.enable") is True
    assert config.get_float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.get_str("broker.rack") is None
    assert config.get_list("log.dirs") == ()


def test_a_key_that_does_not_exist_cannot_be_asked_for() -> None:
    with pytest.raises(KeyError):
        node()["num.partition"]


def test_a_listeners_own_setting_wins_over_the_general_one() -> None:
    config = node(max_connections="100", listener_name_plaintext_max_connections="10")
    assert config.for_listener("PLAINTEXT", "max.connections") == 10
    assert config.for_listener("CONTROLLER", "max.connections") == 100


def test_a_sasl_mechanism_may_stand_between_listener_and_key() -> None:
    name = "listener.name.plaintext.scram-sha-256.sasl.jaas.config"
    assert NodeConfig.of({**COMBINED, name: "x"}).is_set(name)


def test_node_id_and_broker_id_stand_in_for_each_other() -> None:
    old = {name: text for name, text in COMBINED.items() if name != "node.id"}
    assert NodeConfig.of({**old, "broker.id": "1"}).node_id == 1
    assert node().get_int("broker.id") == 1
    assert "must be the same" in problems(COMBINED, broker_id="2")


def test_keys_without_effect_are_told_once_by_kind() -> None:
    config = node(
        num_io_threads="4",
        telemetry_max_bytes="1000",
        num_partitions="2",
        listener_name_plaintext_max_connections="5",
        listener_name_plaintext_num_network_threads="5",
    )
    assert config.notices() == [
        "known and ignored: num.io.threads",
        "not honoured yet: telemetry.max.bytes, listener.name.plaintext.num.network.threads",
    ]
    assert node().notices() == []


# -- what several keys say together ---------------------------------------------------------------


def test_listeners_are_split_by_who_uses_them() -> None:
    config = node()
    client = Listener("PLAINTEXT", "", 9092, "PLAINTEXT")
    quorum = Listener("CONTROLLER", "", 9093, "PLAINTEXT")
    assert config.listeners == (client, quorum)
    assert config.broker_listeners == config.advertised_listeners == (client,)
    assert config.controller_listeners == config.advertised_controller_listeners == (quorum,)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.quorum_voters == (Voter(1, "localhost", 9093),)


def test_listeners_take_ipv6_and_names_of_ones_own() -> None:
    config = NodeConfig.of(
        {
            **COMBINED,
            "listeners": "inside://[::1]:19092,Outside://0.0.0.0:9092,CONTROLLER://:9093",
            "advertised.listeners": "inside://[::1]:19092,outside://example.org:443",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "inside",
        }
    )
    assert config.listeners[0] == Listener("INSIDE", "::1", 19092, "PLAINTEXT")
    assert config.advertised_listeners[1] == Listener("OUTSIDE", "example.org", 443, "SSL")
    assert str(config.listeners[0]) == "INSIDE://[::1]:19092"
    assert config.inter_broker_listener_name == "INSIDE"


@pytest.mark.parametrize(
    ("settings", "millis"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(settings: dict[str, str], millis: int) -> None:
    assert NodeConfig.of({**COMBINED, **settings}).retention_ms == millis


def test_roll_and_flush_times_come_from_the_finest_key_that_is_set() -> None:
    coarse = node(log_roll_hours="1", log_roll_jitter_hours="2")
    assert (coarse.roll_ms, coarse.roll_jitter_ms) == (3_600_000, 7_200_000)
    fine = node(log_roll_hours="1", log_roll_ms="9", log_roll_jitter_ms="0")
    assert (fine.roll_ms, fine.roll_jitter_ms) == (9, 0)
    assert node(log_flush_scheduler_interval_ms="7").flush_ms == 7
    assert node(log_flush_scheduler_interval_ms="7", log_flush_interval_ms="5").flush_ms == 5


def test_data_goes_to_log_dirs_or_else_to_log_dir() -> None:
    assert node().log_dirs == ("/tmp/kafka-logs",)
    assert node(log_dir="/a").log_dirs == ("/a",)
    both = node(log_dir="/a", log_dirs="/b,/c")
    assert both.log_dirs == ("/b", "/c")
    assert both.metadata_log_dir == "/b"
    assert node(metadata_log_dir="/m").metadata_log_dir == "/m"


def test_dynamic_layers_lie_over_the_file_and_supersede_coarser_units() -> None:
    config = node(log_retention_hours="2", num_io_threads="4")
    over = config.overlaid({"log.retention.ms": "1000"}, {"num.io.threads": "8"})
    assert over.retention_ms == 1000
    assert over.get_int("log.retention.hours") == 168
    assert over.get_int("num.io.threads") == 8
    assert config.retention_ms == 7_200_000
    assert config.overlaid({}, {}) is config


def test_the_same_layers_give_the_same_configuration_again() -> None:
    config, layer = node(), {"log.retention.ms": "1000"}
    assert config.overlaid(layer) is config.overlaid(layer)
    assert config.overlaid({"log.retention.ms": "2000"}).retention_ms == 2000


def test_a_dynamic_value_that_does_not_parse_is_left_out() -> None:
    over = node().overlaid({"log.retention.ms": "soon", "num.io.threads": "9"})
    assert over.retention_ms == 604_800_000
    assert over.get_int("num.io.threads") == 9


# -- problems -------------------------------------------------------------------------------------


def test_everything_wrong_with_a_file_is_reported_together_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a node\nprocess.roles=broker\nnode.id=x\nnum.partition=3\n\nzookeeper.connect=z:1\n"
        "log.dirs=/a,,/b\n"
    )
    with pytest.raises(ConfigProblems) as caught:
        NodeConfig.load(str(path))
    assert str(caught.value) == (
        f"{path} has 5 problems:\n"
        "  controller.listener.names is missing: name the listener of the controllers, "
        "usually CONTROLLER.\n"
        "  line 3: Invalid value x for configuration node.id: expected a whole number of 32 bits.\n"
        "  line 4: num.partition is not a configuration key. Did you mean num.partitions?\n"
        "  line 6: zookeeper.connect no longer exists in Kafka 4: ZooKeeper is gone; see "
        "process.roles and controller.quorum.*.\n"
        "  line 7: Invalid value /a,,/b for configuration log.dirs: expected no empty value "
        "between commas."
    )
    assert caught.value.problems[2].nearest == "num.partitions"


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("".join(f'"{name}" = "{text}"\n' for name, text in COMBINED.items()))
    assert NodeConfig.load(str(path), {"num.partitions": "7"}).get_int("num.partitions") == 7


def test_a_secret_is_not_repeated_in_a_problem() -> None:
    text = problems(COMBINED, ssl_keystore_password="hush", num_partitions="0")
    assert "hush" not in text


@pytest.mark.parametrize(
    ("base", "settings", "expected"),
    [
        (COMBINED, {"listeners": "PLAINTEXT"}, "expected NAME://HOST:PORT"),
        (COMBINED, {"listeners": "FOO://:1,CONTROLLER://:2"}, "FOO has no entry in listener.sec"),
        (COMBINED, {"listeners": "PLAINTEXT://:70000,CONTROLLER://:2"}, "from 0 to 65535"),
        (
            COMBINED,
            {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3"},
            "PLAINTEXT stands there twice",
        ),
        (COMBINED, {"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "share port 1"),
        (COMBINED, {"listeners": "PLAINTEXT://:1"}, "a controller must listen on CONTROLLER"),
        (COMBINED, {"listeners": "CONTROLLER://:1"}, "a broker needs a listener"),
        (COMBINED, {"listener.security.protocol.map": "A"}, "expected NAME:PROTOCOL"),
        (COMBINED, {"listener.security.protocol.map": "A:TLS"}, "expected NAME:PROTOCOL"),
        (COMBINED, {"listener.security.protocol.map": "A:SSL,a:PLAINTEXT"}, "with two protocols"),
        (
            COMBINED,
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "CONTROLLER has no entry",
        ),
        (COMBINED, {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nobody can connect"),
        (COMBINED, {"advertised.listeners": "SSL://h:1"}, "advertised but not in listeners"),
        (COMBINED, {"inter.broker.listener.name": "SSL"}, "is not advertised"),
        (
            COMBINED,
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "Only one of",
        ),
        (
            BROKER,
            {
                "listeners": "SASL_SSL://:1",
                "security.inter.broker.protocol": "SASL_SSL",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            },
            "PLAIN is not in sasl.enabled.mechanisms",
        ),
        (BROKER, {"listeners": "PLAINTEXT://:1,CONTROLLER://:2"}, "only a broker has none of"),
        (BROKER, {"node.id": "1"}, "is a voter, but process.roles has no controller"),
        (BROKER, {"controller.quorum.auto.join.enable": "true"}, "only a controller can join"),
        (CONTROLLER, {"listeners": "CONTROLLER://:1,PLAINTEXT://:2"}, "only a controller has only"),
        (CONTROLLER, {"node.id": "5"}, "5 is not among the voters"),
        (CONTROLLER, {"controller.quorum.voters": ""}, "must find the quorum"),
        (CONTROLLER, {"controller.quorum.voters": "1@a:1,1@b:2"}, "each id may stand there once"),
        (
            CONTROLLER,
            {"controller.quorum.voters": "1@0.0.0.0:1,2@h:2"},
            "the others cannot connect to 0.0.0.0",
        ),
        (CONTROLLER, {"inter.broker.listener.name": "CONTROLLER"}, "brokers do not listen on"),
        (COMBINED, {"group.consumer.session.timeout.ms": "1"}, "must be at least group.consumer"),
        (COMBINED, {"group.streams.max.standby.replicas": "0"}, None),
        (COMBINED, {"group.share.min.heartbeat.interval.ms": "20000"}, "must not exceed"),
        (COMBINED, {"group.share.max.session.timeout.ms": "45000"}, None),
        (
            COMBINED,
            {
                "group.share.max.heartbeat.interval.ms": "60000",
                "group.share.heartbeat.interval.ms": "45000",
            },
            "must be greater than group.share.heartbeat",
        ),
        (COMBINED, {"group.coordinator.rebalance.protocols": "consumer"}, "classic cannot be"),
        (COMBINED, {"max.connections.per.ip.overrides": "bad host:1"}, "expected HOST:COUNT"),
        (COMBINED, {"log.retention.ms": "0"}, "at least 1, or -1 for ever"),
        (COMBINED, {"log.roll.ms": "0"}, "log.roll.ms must be at least 1"),
        (COMBINED, {"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be at least 0"),
        (COMBINED, {"queued.max.request.bytes": "10"}, "must hold one request"),
        (COMBINED, {"log.cleaner.threads": "0"}, "log.cleaner.threads must be at least 1"),
        (COMBINED, {"log.cleaner.dedupe.buffer.size": "1048576"}, "more than 1 MiB"),
        (
            COMBINED,
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            "must not exceed",
        ),
        (COMBINED, {"max.connections.per.ip": "0"}, "lets nobody in"),
        (COMBINED, {"max.connections.per.ip.overrides": "1.2.3.4"}, "expected HOST:COUNT"),
        (COMBINED, {"connections.max.idle.ms": "50"}, "must be less than connections.max.idle"),
        (COMBINED, {"replica.fetch.wait.max.ms": "40000"}, "must not exceed replica.socket"),
        (COMBINED, {"cordoned.log.dirs": "/x"}, "/x is not in log.dirs"),
        (COMBINED, {"cordoned.log.dirs": "*,/x"}, "must stand alone"),
        (COMBINED, {"config.providers": "env"}, "not supported yet"),
        (COMBINED, {"leader.replication.throttled.rate": "1"}, "only be altered while"),
        (
            COMBINED,
            {"remote.log.storage.system.enable": "true", "log.local.retention.ms": "-1"},
            "must be -2 or at most log.retention.ms",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    base: dict[str, str], settings: dict[str, str], expected: str | None
) -> None:
    if expected is None:
        config = NodeConfig.of({**base, **settings})
        assert all(str(config[name]) == value for name, value in settings.items())
    else:
        assert expected in problems({**base, **settings})


@pytest.mark.parametrize("settings", [COMBINED, BROKER, CONTROLLER])
def test_each_role_has_a_configuration_that_passes(settings: dict[str, str]) -> None:
    config = NodeConfig.of(settings)
    assert config.is_broker == ("broker" in settings["process.roles"])
    assert config.is_controller == ("controller" in settings["process.roles"])


def test_an_ipv4_and_an_ipv6_listener_may_share_a_port() -> None:
    config = NodeConfig.of(
        {
            **COMBINED,
            "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092,CONTROLLER://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        }
    )
    assert [listener.port for listener in config.broker_listeners] == [9092, 9092]


def test_controllers_are_not_taken_for_plaintext_where_something_is_secured() -> None:
    secured = {"listeners": "SASL_SSL://:1,CONTROLLER://:2", "sasl.enabled.mechanisms": "PLAIN"}
    assert "CONTROLLER has no entry" in problems({**COMBINED, **secured})


AS_SHIPPED = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_keys_that_kafka_ships_in_its_own_file_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(AS_SHIPPED)
    config = NodeConfig.load(str(path))
    assert [str(listener) for listener in config.advertised_listeners] == [
        "PLAINTEXT://localhost:9092"
    ]
    assert [str(listener) for listener in config.advertised_controller_listeners] == [
        "CONTROLLER://localhost:9093"
    ]
    assert config.security_protocols["SASL_SSL"] == "SASL_SSL"
    assert config.line_of("num.io.threads") == 12


def test_plugins_keep_their_settings_to_themselves() -> None:
    config = NodeConfig.of({**COMBINED, "rsm.config.bucket": "b", "super.users": "User:a"})
    assert config.texts["rsm.config.bucket"] == "b"
    assert config.get_str("super.users") == "User:a"
