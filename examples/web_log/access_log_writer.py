"""Write a web server's log, with a few broken lines, as if visitors came: `--lines-per-second`.

The log is renamed when it has grown to `--rotate` lines, as log rotation does it.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from datetime import UTC, datetime

SECTIONS = ("", "shop", "shop", "shop", "news", "help", "search")
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "curl/8.9", "Examplebot/2.1")
STATUSES = (200,) * 90 + (304,) * 5 + (404,) * 4 + (500,)
BROKEN_ONE_IN = 500


def line(chance: random.Random, number: int, at: datetime) -> str:
    """One line. About one in five hundred is broken, as lines are when a disk was full."""
    client = f"10.0.{chance.randrange(4)}.{chance.randrange(250)}"
    path = f"/{chance.choice(SECTIONS)}/{number}"
    text = (
        f"{client} - - [{at:%d/%b/%Y:%H:%M:%S +0000}] "
        f'"GET {path} HTTP/1.1" {chance.choice(STATUSES)} {chance.randrange(200, 60_000)} '
        f'"-" "{chance.choice(AGENTS)}"'
    )
    return text[: chance.randrange(20, 60)] if number % BROKEN_ONE_IN == 0 else text


def _liveliness(passed: float) -> float:
    """Visitors come in waves: three of them over the whole log."""
    return 1 + 0.7 * math.sin(6 * math.pi * passed)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("log")
    options.add_argument("--lines", type=int, default=20_000)
    options.add_argument("--lines-per-second", type=int, default=1_000)
    options.add_argument("--rotate", type=int, default=8_000)
    given = options.parse_args()
    os.makedirs(os.path.dirname(given.log), exist_ok=True)
    chance = random.Random(7)
    ticks = 20
    log = open(given.log, "a", buffering=1 << 16)  # noqa: SIM115 - replaced at each rotation
    due = time.monotonic()
    for number in range(given.lines):
        log.write(line(chance, number, datetime.now(UTC)) + "\n")
        if (number + 1) % max(1, given.lines_per_second // ticks) == 0:
            log.flush()
            due += 1 / ticks / _liveliness(number / given.lines)
            time.sleep(max(0.0, due - time.monotonic()))
        if (number + 1) % given.rotate == 0 and number + 1 < given.lines:
            log.close()
            os.rename(given.log, f"{given.log}.{(number + 1) // given.rotate}")
            log = open(given.log, "a", buffering=1 << 16)  # noqa: SIM115
    log.close()


if __name__ == "__main__":
    main()
