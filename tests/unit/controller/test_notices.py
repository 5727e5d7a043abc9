"""What an operator reads in the log."""

from __future__ import annotations

import logging

from penstock.controller.notices import UNCLEAN_MAX, notices
from penstock.metadata.image import EMPTY
from penstock.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

from .stage import Stage, manual


def test_brokers_come_and_go_in_words() -> None:
    records = [
        RegisterBrokerRecord(broker_id=3, broker_epoch=17),
        BrokerRegistrationChangeRecord(broker_id=3, fenced=-1),
        BrokerRegistrationChangeRecord(broker_id=3, in_controlled_shutdown=1),
        BrokerRegistrationChangeRecord(broker_id=3, fenced=1),
        UnregisterBrokerRecord(broker_id=3),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
    ]
    told = notices(records, Stage(0).image)
    assert [notice.text for notice in told] == [
        "broker 3 registered, under epoch 17",
        "broker 3 is unfenced: it takes part",
        "broker 3 is leaving: its partitions are handed over",
        "broker 3 is fenced: it leads and follows nothing",
        "broker 3 is forgotten, as an operator wished",
        "metadata.version is at level 30 now",
    ]
    assert {notice.level for notice in told} == {logging.INFO}


def test_how_a_cluster_begins_and_what_this_process_says_itself_is_no_news() -> None:
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        RegisterBrokerRecord(broker_id=3, broker_epoch=17),
        BrokerRegistrationChangeRecord(broker_id=3, fenced=-1),
    ]
    assert not notices(records, EMPTY, own=3)


def test_a_lost_directory_is_a_warning() -> None:
    (told,) = notices([BrokerRegistrationChangeRecord(broker_id=3, log_dirs=[b"d" * 16])], EMPTY)
    assert told == (logging.WARNING, "broker 3 lost log directories and has 1 left")


def test_leaders_are_counted_and_unclean_elections_named() -> None:
    stage = Stage(1)
    stage.create(manual("t", [1], [1], [1]))
    topic_id = stage.image.topics.by_name["t"].id
    records = [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2),
        PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=-1),
        PartitionChangeRecord(topic_id=topic_id, partition_id=2, leader=3, leader_recovery_state=1),
        PartitionChangeRecord(topic_id=topic_id, partition_id=2, isr=[3]),
    ]
    assert notices(records, stage.image) == [
        (logging.INFO, "2 partitions got a leader or a new epoch of it"),
        (logging.WARNING, "1 partition left without a leader: nobody who may lead is up"),
        (
            logging.WARNING,
            "unclean election: broker 3 leads t-2 and may lack records that were acknowledged",
        ),
    ]


def test_many_unclean_elections_do_not_flood_the_log() -> None:
    records = [
        PartitionChangeRecord(partition_id=index, leader=1, leader_recovery_state=1)
        for index in range(1000)
    ]
    told = notices(records, EMPTY)
    assert len(told) == UNCLEAN_MAX + 2
    assert told[-1].text == "unclean elections of 990 partitions more"


def test_what_clients_change_is_not_told() -> None:
    stage = Stage(1)
    decision = stage.create(manual("t", [1]))
    assert decision[0].error_code == 0
    assert not notices(list(stage.image.topics.records()), stage.image)
