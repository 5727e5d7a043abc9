from __future__ import annotations

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.running.clients import translated

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    r'username="alice" password="se\"cret";'
)


def test_a_java_users_login_becomes_librdkafkas() -> None:
    told = translated(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
        }
    )
    assert told == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'se"cret',
    }


def test_stores_in_pem_are_passed_on() -> None:
    told = translated({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"})
    assert told == {"ssl.ca.location": "/ca.pem"}


def test_a_store_that_only_java_reads_is_refused_with_advice() -> None:
    with pytest.raises(Problem, match="JKS") as raised:
        translated({"ssl.truststore.location": "/ca.jks"})
    assert "PEM" in raised.value.advice


def test_settings_of_java_alone_are_left_out() -> None:
    assert translated({"max.poll.records": "7", "sasl.login.class": "X"}) == {}
