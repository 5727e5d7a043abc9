"""Proofs of who one is: certificates, passwords and tokens of nodes and people, in the words that
nodes and clients of each language have for them."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.abc import AbstractTokenProvider

from penstock.security.authority import Authority, write_private
from penstock.security.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from penstock.testing.ports import free_ports
from tests.oracle.nodes import Node
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer

HOSTS = ["localhost", "127.0.0.1"]
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORDS, "OAUTHBEARER")
TOKEN_SECONDS = 600
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed"
# Nodes are called by the name in their certificate and people by theirs; no others are known.
_RULES = "RULE:^CN=(node-[0-9]+),OU=Nodes$/$1/,RULE:^CN=([a-z]+),OU=People$/$1/"


class Proof(NamedTuple):
    """How somebody shows at a listener who they are.

    `mechanism` is one of SASL's, "certificate", or "nothing" for TLS without one. `right` tells
    whether what they show is what was given to them.
    """

    mechanism: str
    user: str
    password: str = ""
    right: bool = True

    @property
    def protocol(self) -> str:
        return "SASL_SSL" if self.mechanism in MECHANISMS else "SSL"


class Office:
    """An authority and an issuer of tokens, with the files that they hand out."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._authority = Authority.make()
        self._stranger = Authority.make("An authority that nobody believes")
        self._signer = Issuer("RS256")
        self._forger = Issuer("RS256")
        self.trust = self._write("trust.pem", self._authority.certificate_pem)
        both = self._authority.certificate_pem + self._stranger.certificate_pem
        self._trust_of_strangers = self._write("trust-of-strangers.pem", both)
        self.key_set = self._write("keys.json", self._signer.key_set)
        self.token = directory / "token"  # of alice, for clients that read theirs from a file

    def _write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        write_private(str(path), content)
        return path

    def certificate(self, name: str, unit: str, right: bool = True) -> Path:
        """Key and certificate of somebody in one file."""
        path = self.directory / f"{name}-{unit}{'' if right else '-forged'}.pem"
        if not path.exists():
            authority = self._authority if right else self._stranger
            write_private(str(path), authority.issue(name, HOSTS, unit=unit).pem())
        return path

    def sign(self, user: str, right: bool = True) -> str:
        """A token; it counts if the issuer is the one that nodes believe."""
        now = int(time.time())
        signer = self._signer if right else self._forger
        claims = {"sub": user, "scope": "all", "iat": now, "exp": now + TOKEN_SECONDS}
        return signer.sign(claims)

    def token_file(self, proof: Proof) -> Path:
        """Put a fresh token where a client reads it; JVMs are told beforehand which file."""
        self._write(self.token.name, self.sign(proof.user, proof.right))
        return self.token

    # -- nodes ------------------------------------------------------------------------------------

    def keys(self, name: str, right: bool = True) -> dict[str, str]:
        """What a node shows, and whom it believes: with a forged certificate, the forger too."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate(name, "Nodes", right)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust if right else self._trust_of_strangers),
            "ssl.principal.mapping.rules": _RULES,
        }

    def logins(self, listener: str, passwords: Mapping[str, str]) -> dict[str, str]:
        """All mechanisms at a listener; `passwords` are those of PLAIN."""
        prefix = f"listener.name.{listener.lower()}"
        users = " ".join(f'user_{user}="{word}"' for user, word in passwords.items())
        return {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{_OAUTH}."
            "OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.key_set}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def allow_files(self) -> tuple[str, ...]:
        """The options without which a JVM of Apache's reads neither key sets nor tokens."""
        files = (self.key_set, self.token)
        urls = ",".join(f"file://{each}" for each in files)
        return f"-D{_ALLOWED}.urls={urls}", f"-D{_ALLOWED}.files={','.join(map(str, files))}"

    # -- clients ----------------------------------------------------------------------------------

    def java(self, proof: Proof, name: str = "", extra: str = "") -> Path:
        """The file that Apache's clients and tools are given."""
        lines = [
            f"security.protocol={proof.protocol}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.trust}",
        ]
        if proof.mechanism == "certificate":
            pem = self.certificate(proof.user, "People", proof.right)
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={pem}"]
        elif proof.mechanism == "OAUTHBEARER":
            lines += [
                "sasl.mechanism=OAUTHBEARER",
                f"sasl.oauthbearer.token.endpoint.url=file://{self.token_file(proof)}",
                f"sasl.oauthbearer.jwt.retriever.class={_OAUTH}.FileJwtRetriever",
                f"sasl.login.callback.handler.class={_OAUTH}.OAuthBearerLoginCallbackHandler",
                f"sasl.jaas.config={OAUTH_MODULE} required;",
            ]
        elif proof.mechanism in PASSWORDS:
            module = PLAIN_MODULE if proof.mechanism == "PLAIN" else SCRAM_MODULE
            known = f'username="{proof.user}" password="{_shown(proof)}" {extra}'
            lines += [
                f"sasl.mechanism={proof.mechanism}",
                f"sasl.jaas.config={module} required {known};",
            ]
        name = name or f"{proof.user}-{proof.mechanism}-{proof.right}"
        return self._write(f"{name}.properties", "\n".join(lines) + "\n")

    def librdkafka(self, proof: Proof) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "security.protocol": proof.protocol,
            "ssl.ca.location": str(self.trust),
            "log_level": 0,
        }
        if proof.mechanism == "certificate":
            pem = str(self.certificate(proof.user, "People", proof.right))
            settings |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
        elif proof.mechanism == "OAUTHBEARER":
            settings |= {
                "sasl.mechanism": proof.mechanism,
                "oauth_cb": lambda _: (
                    self.sign(proof.user, proof.right),
                    time.time() + TOKEN_SECONDS,
                ),
            }
        elif proof.mechanism in PASSWORDS:
            settings |= {
                "sasl.mechanism": proof.mechanism,
                "sasl.username": proof.user,
                "sasl.password": _shown(proof),
            }
        return settings

    def aiokafka(self, proof: Proof) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=str(self.trust))
        settings: dict[str, Any] = {"security_protocol": proof.protocol, "ssl_context": context}
        if proof.mechanism == "certificate":
            context.load_cert_chain(self.certificate(proof.user, "People", proof.right))
        elif proof.mechanism == "OAUTHBEARER":
            settings |= {
                "sasl_mechanism": proof.mechanism,
                "sasl_oauth_token_provider": _Tokens(self, proof),
            }
        elif proof.mechanism in PASSWORDS:
            settings |= {
                "sasl_mechanism": proof.mechanism,
                "sasl_plain_username": proof.user,
                "sasl_plain_password": _shown(proof),
            }
        return settings

    def franz(self, proof: Proof) -> dict[str, Any]:
        """What the Go program of tests/compat/franz/secure reads."""
        settings = {"ca": str(self.trust), "mechanism": proof.mechanism, "user": proof.user}
        if proof.mechanism == "certificate":
            settings["certificate"] = str(self.certificate(proof.user, "People", proof.right))
        elif proof.mechanism == "OAUTHBEARER":
            settings["token"] = self.sign(proof.user, proof.right)
        elif proof.mechanism in PASSWORDS:
            settings["password"] = _shown(proof)
        return settings


def _shown(proof: Proof) -> str:
    return proof.password if proof.right else "not-the-password"


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, office: Office, proof: Proof) -> None:
        self._office = office
        self._proof = proof

    async def token(self) -> str:
        return self._office.sign(self._proof.user, self._proof.right)


def listen(node: Node, protocols: Mapping[str, str], between: str, controller: str) -> None:
    """Give a node a listener for each name, in place of the one that it has.

    The first has the node's own port. Nodes reach each other at `between`, controllers with the
    protocol `controller`.
    """
    first, *others = protocols
    ports = {first: node.port, **dict(zip(others, free_ports(len(others)), strict=True))}
    served = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    known = {**protocols, "CONTROLLER": controller}
    node.config |= {
        "listeners": f"{served},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": served,
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in known.items()),
        "inter.broker.listener.name": between,
    }


def servers(node: Node, listener: str) -> str:
    """Where clients find a listener of a node."""
    for each in node.config["advertised.listeners"].split(","):
        name, _, address = each.partition("://")
        if name == listener:
            return address
    raise KeyError(f"{node.name} has no listener {listener}")
