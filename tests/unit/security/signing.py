"""An issuer of tokens for tests: a key, the set that others see of it, and what it signs."""

from __future__ import annotations

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.unit.security.users import NOW

ISSUER = "https://issuer.example"
AUDIENCE = "penstock"


class Issuer:
    """Signs with one key of a kind."""

    def __init__(self, algorithm: str = "ES256", key_id: str = "key-1") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self._key: Any
        if algorithm.startswith("ES"):
            self._key = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        elif algorithm == "EdDSA":
            self._key = ed25519.Ed25519PrivateKey.generate()
            public = OKPAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        else:
            self._key = rsa.generate_private_key(65537, 2048)
            public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.public: dict[str, Any] = {**public, "kid": key_id, "use": "sig"}

    @property
    def key_set(self) -> bytes:
        return key_set(self.public)

    def sign(
        self, claims: dict[str, Any] | None = None, headers: dict[str, Any] | None = None
    ) -> str:
        """A token that counts, but for what `claims` changes; None takes a claim or header out."""
        told = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": NOW // 1000,
            "exp": NOW // 1000 + 60,
            **(claims or {}),
        }
        payload = {key: value for key, value in told.items() if value is not None}
        head = {"kid": self.key_id, **(headers or {})}
        given = {key: value for key, value in head.items() if value is not None}
        return jwt.encode(payload, self._key, self.algorithm, given)


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()
