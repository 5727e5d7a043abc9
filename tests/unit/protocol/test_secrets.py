"""Messages that carry secrets can be shown."""

from __future__ import annotations

import pytest

from penstock.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.generated.create_delegation_token import CreateDelegationTokenResponse
from penstock.protocol.generated.metadata_records import UserScramCredentialRecord
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.message import Part

SECRET = b"hunter2"


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(auth_bytes=SECRET),
        CreateDelegationTokenResponse(token_id="t", hmac=SECRET),
        UserScramCredentialRecord(name="ann", stored_key=SECRET, server_key=SECRET),
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="ann", salted_password=SECRET)]
        ),
    ],
)
def test_what_opens_doors_is_not_shown(message: Part) -> None:
    assert "hunter2" not in repr(message)
    assert "[hidden]" in repr(message)
