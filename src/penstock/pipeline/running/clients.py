"""Settings of Kafka's Java clients, as librdkafka spells them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline

SAME = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "ssl.endpoint.identification.algorithm",
        "client.id",
        "client.rack",
        "ssl.key.password",
    }
)
"""What both spell alike. All else that librdkafka knows by its own name is passed on, too."""

JAVA_ONLY = re.compile(
    r"^(ssl\.(truststore|keystore)\.|sasl\.(login|client|jaas)\.|ssl\.(protocol|provider|"
    r"enabled|trustmanager|keymanager|secure)|.*\.deserializer$|.*\.serializer$|"
    r"max\.poll\.records$|retries$|request\.timeout\.ms$|default\.api\.timeout\.ms$)"
)


def client_settings(pipeline: Pipeline) -> dict[str, Any]:
    """Settings for confluent-kafka that reach the pipeline's cluster as the pipeline's user."""
    silent = logging.getLogger("penstock.pipeline.librdkafka")
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    return {
        "bootstrap.servers": pipeline.bootstrap,
        "client.id": f"penstock-pipeline-{pipeline.name}",
        "logger": silent,
        **translated(pipeline.kafka),
    }


def translated(kafka: Mapping[str, str]) -> dict[str, str]:
    """Java's settings in librdkafka's words."""
    told = {
        name: value for name, value in kafka.items() if name in SAME or not JAVA_ONLY.match(name)
    }
    told.update(_user(kafka.get("sasl.jaas.config", "")))
    for store, there in (("truststore", "ssl.ca.location"), ("keystore", "ssl.keystore.location")):
        location = kafka.get(f"ssl.{store}.location")
        if not location:
            continue
        kind = kafka.get(f"ssl.{store}.type", "JKS").upper()
        if kind == "PEM" and store == "keystore":
            told["ssl.certificate.location"] = told["ssl.key.location"] = location
        elif kind == "PEM" or (kind == "PKCS12" and store == "keystore"):
            told[there] = location
        else:
            raise Problem(
                f"kafka.ssl.{store}.location is a {kind} file, which only Java can read",
                f"Use PEM: ssl.{store}.type: PEM.",
            )
    if "ssl.keystore.password" in kafka:
        told["ssl.keystore.password"] = kafka["ssl.keystore.password"]
    return told


def _user(jaas: str) -> dict[str, str]:
    found = dict(re.findall(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas))
    told = {}
    if "username" in found:
        told["sasl.username"] = found["username"]
    if "password" in found:
        told["sasl.password"] = re.sub(r"\\(.)", r"\1", found["password"])
    return told
