"""Users and tokens of a metadata image that tests log in with."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.metadata.delegation_tokens import DelegationToken, DelegationTokensImage
from penstock.metadata.scram import ScramCredential, ScramImage
from penstock.model.ids import Millis
from penstock.security.accounts import Accounts, Vault
from penstock.security.mechanisms import Outcome, Refresh, Work
from penstock.security.scram_keys import BY_NAME, credential, salted

SHA256 = BY_NAME["SCRAM-SHA-256"]
SHA512 = BY_NAME["SCRAM-SHA-512"]
NOW = Millis(1_700_000_000_000)
SECRET = "the key that all nodes share"


def kept(
    password: str, salt: bytes = b"s" * 16, kind: str = "SCRAM-SHA-256", rounds: int = 4096
) -> ScramCredential:
    mechanism = BY_NAME[kind]
    return credential(mechanism, salt, rounds, salted(mechanism, password, salt, rounds))


def accounts(
    users: Mapping[tuple[str, str], ScramCredential] | None = None,
    tokens: Mapping[str, DelegationToken] | None = None,
    secret: str | None = SECRET,
) -> Accounts:
    """Users by mechanism and name."""
    known = {(BY_NAME[kind].number, name): it for (kind, name), it in (users or {}).items()}
    held = DelegationTokensImage(tokens)
    return Accounts(Vault(secret, "a cluster"), ScramImage(known), held)


def token(owner: str = "User:alice", ends: int = NOW + 60_000) -> DelegationToken:
    return DelegationToken(owner, owner, (), NOW - 1000, NOW + 600_000, ends)


def settled(outcome: Outcome) -> Outcome:
    """What comes of an outcome when its work is done at once, and keys are not asked for."""
    while isinstance(outcome, Work | Refresh):
        outcome = outcome.then(outcome.run()) if isinstance(outcome, Work) else outcome.then()
    return outcome
