"""Give an application its own user, its own rights and its own share, and see that it has no more.

    penstock up --secure                                          # in one terminal
    python examples/secure/applications.py penstock-data          # in another

What a platform team does with `penstock user`, `penstock acl` and `penstock quota`, or with Kafka's
tools, is done here with confluent-kafka's own admin client. Without a node at hand, `--embedded`
starts a secured one for the occasion.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.testing import Broker

TOPIC, FOREIGN = "orders-placed", "salaries"
USER, PASSWORD = "shop", "a password from a vault"
SECONDS_MAX = 10


def run(admin_settings: dict[str, str]) -> list[str]:
    """Set the application up as the admin, then act as the application; what came of it."""
    admin = AdminClient(admin_settings)
    create_topics(admin)
    create_user(admin)
    allow_to_produce(admin)
    shop = {**admin_settings, "sasl.username": USER, "sasl.password": PASSWORD}
    return [send(shop, TOPIC), send(shop, FOREIGN), send({**shop, "sasl.password": "?"}, TOPIC)]


def create_topics(admin: AdminClient) -> None:
    known = admin.list_topics(timeout=SECONDS_MAX).topics
    new = [NewTopic(name, 1) for name in (TOPIC, FOREIGN) if name not in known]
    for future in admin.create_topics(new).values() if new else ():
        future.result(SECONDS_MAX)


def create_user(admin: AdminClient) -> None:
    """The client salts and stretches the password: the cluster never sees it."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    admin.alter_user_scram_credentials([change])[USER].result(SECONDS_MAX)


def allow_to_produce(admin: AdminClient) -> None:
    """Whatever begins with `orders-` may be written and described, and nothing else."""
    rights = [
        AclBinding(
            ResourceType.TOPIC,
            "orders-",
            ResourcePatternType.PREFIXED,
            f"User:{USER}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    for future in admin.create_acls(rights).values():
        future.result(SECONDS_MAX)


def send(settings: dict[str, str], topic: str) -> str:
    """Try to write one record; what became of it."""
    outcome = [f"{topic}: nobody let us in"]

    def on_delivery(error: object, _: object) -> None:
        outcome[0] = f"{topic}: {'delivered' if error is None else error.name()}"

    producer = Producer({**settings, "message.timeout.ms": 3000, "log_level": 0})
    producer.produce(topic, b"an order", on_delivery=on_delivery)
    producer.flush(SECONDS_MAX)
    return outcome[0]


def admin_settings(data: Path, bootstrap: str) -> dict[str, str]:
    """As `penstock up --secure` prints them."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(data / "authority.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": (data / "admin.password").read_text(),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("data", nargs="?", default="penstock-data", type=Path, metavar="DIR")
    arguments.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT")
    arguments.add_argument("--embedded", action="store_true", help="start a node for this run")
    chosen = arguments.parse_args()
    if chosen.embedded:
        with Broker(secure=True) as broker:
            told = run(broker.client_settings)
    else:
        told = run(admin_settings(chosen.data, chosen.bootstrap))
    print("\n".join(told))


if __name__ == "__main__":
    main()
