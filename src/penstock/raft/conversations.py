"""Questions to other members that are under way, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.net.peer import PeerTooOld
from penstock.raft.messages import Vote, VoteReply

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.raft.messages import Ask, Replica, Reply
    from penstock.raft.peers import Peers

log = logging.getLogger("penstock.raft")


class Conversations:
    """Asks, and tells what was heard, that nothing was, or that something is wrong with us."""

    def __init__(
        self,
        peers: Peers,
        on_heard: Callable[[int, Ask, Reply], None],
        on_missed: Callable[[int, Ask, Exception], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._peers = peers
        self._on_heard = on_heard
        self._on_missed = on_missed
        self._on_failure = on_failure
        self.under_way: set[asyncio.Task[None]] = set()

    def begin(self, to: Replica, ask: Ask) -> None:
        """Ask a member something."""
        self.run(self._converse(to, ask))

    def run(self, talk: Coroutine[Any, Any, None]) -> None:
        """Carry on a longer talk beside the others."""
        task = asyncio.get_running_loop().create_task(talk)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    def cancel(self) -> None:
        """Hear of nobody any more."""
        for task in self.under_way:
            task.cancel()

    async def _converse(self, to: Replica, ask: Ask) -> None:
        try:
            sender, reply = await self._peers.ask(to, ask)
        except PeerTooOld as problem:
            if not isinstance(ask, Vote) or not ask.pre:
                self._on_missed(to.id, ask, problem)
                return
            # It knows no way to disturb nobody: who asks it must do without its advice.
            sender, reply = to.id, VoteReply(ask.epoch, granted=True)
        except (OSError, UnicodeError) as problem:
            # The latter of a name that cannot be looked up: whoever wrote it down, others go on.
            self._on_missed(to.id, ask, problem)
            return
        except Exception as problem:
            log.exception("%s to node %d", type(ask).__name__, to.id)
            self._on_failure(problem)
            return
        self._on_heard(sender, ask, reply)
