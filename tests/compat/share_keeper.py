"""A member of a share group that takes records and never says what became of them.

Run as a program with bootstrap address, group, topic and how many to take; it prints their values,
and waits to be killed.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import ShareConsumer


def main() -> None:
    bootstrap, group, topic, count = sys.argv[1:]
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([topic])
    taken = 0
    while taken < int(count):
        for message in consumer.poll(timeout=1.0):
            print((message.value() or b"").decode(), flush=True)
            taken += 1
        if taken:
            break  # with records in hand that it has not spoken of, it gets no others
    time.sleep(600)


if __name__ == "__main__":
    main()
