"""What a SASL mechanism is to a listener: who begins an exchange, and what comes of each step.

Exchanges are machines: messages of the client and the time come in, and what is to be done comes
out. Nothing here waits or computes for long: that is handed out as `Work`, for who drives the
exchange to run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.security.principal import Principal

if TYPE_CHECKING:
    from penstock.model.ids import Millis
    from penstock.security.accounts import Accounts

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"

KNOWN = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""All that there are here."""


class Challenge(NamedTuple):
    """The client has to go on."""

    data: bytes

    def __repr__(self) -> str:
        return f"Challenge({len(self.data)} bytes)"


class Accepted(NamedTuple):
    """They are who they say."""

    principal: Principal
    data: bytes = b""
    expires: Millis | None = None
    """When, by the wall clock, that which they showed ends; None if it does not."""

    def __repr__(self) -> str:
        return f"Accepted({self.principal})"


class Refused(NamedTuple):
    """They are not, or do not speak the mechanism."""

    user: str
    """Who they claimed to be; may be empty."""
    reason: str
    """For the operator's eyes only: it may say which of the two was wrong, name or password."""
    told: str = ""
    """What the client may know; empty for the words that all mechanisms share."""


class Work(NamedTuple):
    """Something that takes long: `run` it elsewhere, and give `then` what came of it."""

    run: Callable[[], Any]
    then: Callable[[Any], Outcome]

    def __repr__(self) -> str:
        return "Work()"  # what is to be run knows secrets


class Refresh(NamedTuple):
    """Ask for the keys of whoever signs tokens, then call `then`."""

    then: Callable[[], Outcome]
    missing: bool
    """Whether one is missing; if not, it is enough to ask when those that are known are old."""


Outcome = Challenge | Accepted | Refused | Work | Refresh


class Exchange(Protocol):
    """One client's proof, step by step."""

    def step(self, message: bytes, now: Millis) -> Outcome:
        """What to do about a message of the client. Any bytes may come; nothing is raised."""


class Mechanism(Protocol):
    """A way to prove who one is, as a listener offers it."""

    @property
    def name(self) -> str:
        """As clients ask for it."""

    def begin(self, accounts: Accounts, nonce: bytes) -> Exchange:
        """An exchange with a client that has just come; `nonce` is for this one alone."""
