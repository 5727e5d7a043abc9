"""Messages that carry secrets can be shown."""

from __future__ import annotations

import pytest

from penstock.model.config import BROKER_KEYS
from penstock.protocol.generated.alter_configs import AlterableConfig as OldAlterableConfig
from penstock.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.generated.create_delegation_token import CreateDelegationTokenResponse
from penstock.protocol.generated.create_topics import CreatableTopicConfig
from penstock.protocol.generated.envelope import EnvelopeRequest
from penstock.protocol.generated.incremental_alter_configs import AlterableConfig
from penstock.protocol.generated.metadata_records import ConfigRecord, UserScramCredentialRecord
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.message import Part

SECRET = b"hunter2"


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(auth_bytes=SECRET),
        EnvelopeRequest(request_data=SECRET),
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


@pytest.mark.parametrize("name", sorted(key for key, it in BROKER_KEYS.items() if it.sensitive))
@pytest.mark.parametrize("prefix", ["", "listener.name.internal."])
def test_the_value_of_a_secret_setting_is_not_shown(prefix: str, name: str) -> None:
    if name == "ssl.truststore.certificates":
        return  # certificates are public, only Kafka's type of the setting says otherwise
    for each in (AlterableConfig, OldAlterableConfig, ConfigRecord, CreatableTopicConfig):
        assert "hunter2" not in repr(each(name=prefix + name, value="hunter2"))


def test_the_value_of_any_other_setting_is_shown() -> None:
    assert "604800" in repr(AlterableConfig(name="retention.ms", value="604800"))
