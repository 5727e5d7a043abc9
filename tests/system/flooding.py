"""An attacker, as a process of its own: python -m tests.system.flooding KIND PORT COUNT SECONDS.

It says `attacking` once it does what it is for, goes on for so many seconds, and says how often it
did it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import struct
import sys
import time
from collections.abc import Awaitable, Callable

from tests.oracle import wire

WORKERS = 20
"""Of those who come and go, at a time."""

HANDSHAKE = 17
TOPIC = "worked-on"
"""What whoever is attacked writes to."""


class Attack:
    """One attacker and what it holds."""

    def __init__(self, port: int, count: int, until: float) -> None:
        self.port = port
        self.count = count
        self.until = until
        self.done = 0
        self.held: list[asyncio.StreamWriter] = []

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=2048)

    async def come_and_go(self, what: bytes) -> None:
        """Connect, say something, and wait to be thrown out; many at a time, again and again."""

        async def worker() -> None:
            while not self.over:
                try:
                    reader, writer = await self.connect()
                    writer.write(what)
                    async with asyncio.timeout(1):
                        await reader.read(1)
                    writer.close()
                except (OSError, TimeoutError):
                    pass
                self.done += 1

        await asyncio.gather(*(worker() for _ in range(WORKERS)))

    async def hold(self, what: bytes) -> None:
        """Connect, say something, and stay."""

        async def worker() -> None:
            while self.done < self.count and not self.over:
                self.done += 1
                try:
                    _, writer = await self.connect()
                except OSError:
                    self.done -= 1
                    continue
                self.held.append(writer)
                if what:
                    writer.write(what)

        await asyncio.gather(*(worker() for _ in range(WORKERS)))


async def storm(attack: Attack) -> None:
    """Connections that are closed as soon as they are made."""

    async def worker() -> None:
        while not attack.over:
            try:
                _, writer = await attack.connect()
                writer.transport.abort()
            except OSError:
                pass
            attack.done += 1

    await asyncio.gather(*(worker() for _ in range(WORKERS)))


async def garbage(attack: Attack) -> None:
    """Bytes that are no request of any version."""
    await attack.come_and_go(os.urandom(4096))


async def heads(attack: Attack) -> None:
    """Frames announced to be as large as can be said."""
    await attack.come_and_go(struct.pack(">i", 2**31 - 1) + b"x" * 60)


async def unfinished(attack: Attack) -> None:
    """Frames as large as strangers may send, of which the last byte never comes."""
    await attack.hold(struct.pack(">i", 500_000) + bytes(400_000))
    while not attack.over:
        await asyncio.sleep(0.05)


async def handshakes(attack: Attack) -> None:
    """Logins that are begun and never finished."""
    await attack.hold(wire.frame(wire.request(HANDSHAKE, 1, wire.string("PLAIN"))))
    while not attack.over:
        await asyncio.sleep(0.05)


async def idle(attack: Attack) -> None:
    """Connections that say nothing."""
    await attack.hold(b"")
    while not attack.over:
        await asyncio.sleep(0.05)


async def trickle(attack: Attack) -> None:
    """A byte now and then, on many connections."""
    await attack.hold(struct.pack(">i", 100_000))
    while not attack.over:
        for at, writer in enumerate(attack.held):
            writer.write(b"x")
            attack.done += 1
            if at % 50 == 0:
                await asyncio.sleep(0.005)


async def deaf(attack: Attack) -> None:
    """Megabytes that are asked for again and again, and never read."""
    where = struct.pack(">iqi", 0, 0, 1 << 20)
    wanted = wire.array([wire.string(TOPIC) + wire.array([where])])
    ask = wire.request(
        wire.FETCH, wire.FETCH_VERSION, struct.pack(">iiiib", -1, 0, 1, 1 << 20, 0) + wanted
    )
    for _ in range(attack.count):
        _, writer = await attack.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(wire.frame(ask) * 500)
        attack.held.append(writer)
        attack.done += 1
    while not attack.over:
        await asyncio.sleep(0.05)


KINDS: dict[str, Callable[[Attack], Awaitable[None]]] = {
    kind.__name__: kind
    for kind in (storm, garbage, heads, unfinished, handshakes, idle, trickle, deaf)
}


async def main(kind: str, port: int, count: int, seconds: float) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.nice(5)  # it would have a machine of its own; here it shares the one that it attacks
    attack = Attack(port, count, time.monotonic() + seconds)
    attacking = asyncio.ensure_future(KINDS[kind](attack))
    while not attacking.done() and attack.done < min(count, 50):
        await asyncio.sleep(0.01)
    print("attacking", flush=True)
    await attacking
    print(attack.done, flush=True)
    os._exit(0)  # closing thousands of connections one by one takes longer than the attack


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
