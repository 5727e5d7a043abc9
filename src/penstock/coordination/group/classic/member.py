"""A member of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.ids import Millis

Protocols = tuple[tuple[str, bytes], ...]
"""Ways of assigning that a member can take part in, best first: name, and what it has to say."""


class Member:
    """Who it is, what it can do, what it has to do, and how long it is taken to be alive."""

    __slots__ = (
        "armed",
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """Waits in its first join: it cannot send heartbeats yet, and waiting proves nothing."""
        self.deadline: Millis | None = None
        """When its session ends, unless it is heard of."""
        self.armed: Millis | None = None
        """When its timer comes: at the deadline or before, then it is set anew."""

    def __repr__(self) -> str:
        return f"Member({self.member_id!r})"

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place over restarts."""
        return self.instance_id is not None

    def metadata(self, protocol: str) -> bytes:
        """What it has to say in this protocol, which it must know."""
        return next(said for name, said in self.protocols if name == protocol)

    def vote(self, candidates: set[str]) -> str:
        """The protocol that it likes best of these."""
        return next(name for name, _ in self.protocols if name in candidates)

    def successor(self, member_id: str) -> Member:
        """The same static member after a restart, under its new id."""
        return Member(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            self.assignment,
        )
