"""AlterUserScramCredentials, version 0: set and take away the passwords of users.

What comes is salted and stretched already, and only what is derived from it is kept: no password
reaches the metadata log, nor any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.security.scram_keys import MECHANISMS
from penstock.server import audit
from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from penstock.protocol.generated.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Forward to the controller, which keeps what SCRAM needs."""
    response: AlterUserScramCredentialsResponse = await forward(broker, call, request)
    done = {result.user for result in response.results if not result.error_code}
    if done:
        audit.changed(
            call,
            "alter SCRAM credentials",
            {
                "set": [_named(each) for each in request.upsertions if each.name in done],
                "deleted": [_named(each) for each in request.deletions if each.name in done],
            },
        )
    return response


def _named(change: ScramCredentialUpsertion | ScramCredentialDeletion) -> str:
    return f"{change.name} ({MECHANISMS[change.mechanism].name})"
