"""What `penstock up --secure` makes once and finds again: an authority, keys, and an admin.

All of it lies beside the data, as plain files: Apache Kafka, to which the directory may go one day,
takes every folder there for a partition. Whoever can read the secret ones is the cluster's owner.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.app import COMPANY_NOTE, SECURED_NOTE
from penstock.app.settings import ANY_ADDRESS
from penstock.model.ids import uuid_text
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.raft.format import Formatter, Identity
from penstock.storage.checkpoints import META_PROPERTIES
from penstock.storage.log_directory import read_meta

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord

ADMIN = "admin"
NODE = "penstock"
"""The name in the certificate of nodes; who shows it on an inner listener is one of them."""

MECHANISM = "SCRAM-SHA-512"
PROTOCOL = "SASL_SSL"
BROKERS = "BROKER"
"""The listener of several brokers for each other, with certificates on both sides."""

RENEW_MS = 30 * 24 * 3600 * 1000
"""A certificate that ends so soon is replaced at the start."""

PASSWORD_BYTES = 24

_SERVERS = "bootstrap.servers"


class CannotSecure(ValueError):
    """The directory does not fit; the message says what to do."""


class Files(NamedTuple):
    """Where everything is, by absolute paths: clients run elsewhere."""

    authority: str
    """What clients trust."""
    authority_key: str
    """What signs; whoever has it can be any node."""
    node: str
    """Key and certificate of all nodes of this directory."""
    password: str
    properties: str
    """The admin's client settings, in Kafka's words."""

    @classmethod
    def of(cls, data: str) -> Files:
        names = (
            "authority.pem",
            SECURED_NOTE,
            "node.pem",
            f"{ADMIN}.password",
            f"{ADMIN}.properties",
        )
        return cls(*(os.path.join(os.path.abspath(data), name) for name in names))


def is_secured(data: str) -> bool:
    """Whether a directory was begun with --secure."""
    return os.path.exists(os.path.join(data, SECURED_NOTE))


def client_settings(data: str) -> dict[str, str]:
    """How the admin of a secured directory comes in, in librdkafka's words."""
    files = Files.of(data)
    with open(files.password) as file:
        password = file.read()
    return {
        "security.protocol": PROTOCOL,
        "ssl.ca.location": files.authority,
        "sasl.mechanism": MECHANISM,
        "sasl.username": ADMIN,
        "sasl.password": password,
    }


class Secured:
    """One directory with its authority, its keys and its admin."""

    def __init__(self, data: str, host: str) -> None:
        """Make what is missing. CannotSecure where open nodes have worked so far."""
        self.files = Files.of(data)
        self.is_new = not is_secured(data)
        if self.is_new:
            if _holds_data(data):
                raise CannotSecure(
                    f"{data} holds data of a node that was started without --secure, and so has "
                    "no admin: give another --data"
                )
            Disk().mkdir(data)
            self._begin()
        self._make_keys(_names_of(host))

    def _begin(self) -> None:
        """The authority's key comes last: it says that a directory is secured."""
        from penstock.security.authority import Authority, write_private

        authority = Authority.make()
        Disk().write_atomic(self.files.authority, authority.certificate_pem.encode())
        chosen = SystemChance().token_bytes(PASSWORD_BYTES)
        write_private(self.files.password, base64.urlsafe_b64encode(chosen))
        write_private(self.files.authority_key, authority.pem)

    def _make_keys(self, hosts: Iterable[str]) -> None:
        """Again where they end soon, or where the node is to be reached under another name."""
        from penstock.security.stores import Store, StoreError, read_keys

        names = set(hosts)
        if os.path.exists(self.files.node):
            try:
                known = read_keys(Store("keystore", location=self.files.node))
            except StoreError as problem:
                raise CannotSecure(f"{problem}; remove the file, and it is made anew") from None
            if known.hosts >= names and known.ends_ms > SystemClock().now() + RENEW_MS:
                return
            names |= known.hosts
        from penstock.security.authority import Authority, write_private

        try:
            with open(self.files.authority_key) as file:
                authority = Authority.read(file.read())
        except ValueError:
            raise CannotSecure(f"{self.files.authority_key} holds no authority") from None
        write_private(self.files.node, authority.issue(NODE, sorted(names)).pem())

    # -- for nodes --------------------------------------------------------------------------------

    def settings(self) -> dict[str, str]:
        """What makes listeners ask for proof, in Kafka's own keys."""
        from penstock.app.security import STANDARD_AUTHORIZER

        protocols = {PROTOCOL: PROTOCOL, "CONTROLLER": "SSL", BROKERS: "SSL"}
        return {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "inter.broker.listener.name": PROTOCOL,  # of one broker, which has nobody to talk to
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.files.node,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.files.authority,
            "listener.name.controller.ssl.client.auth": "required",
            f"listener.name.{BROKERS.lower()}.ssl.client.auth": "required",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN};User:CN={NODE}",
        }

    def credentials(self) -> list[UserScramCredentialRecord]:
        """What the metadata of a new cluster begins with: the admin, and nobody else.

        Nobody at all where the admin's first password was taken away: later brokers hear of users
        from those that are there.
        """
        password = self._password()
        if password is None:
            return []
        from penstock.protocol.generated.metadata_records import UserScramCredentialRecord
        from penstock.security import scram_keys

        mechanism, iterations = scram_keys.BY_NAME[MECHANISM], scram_keys.ITERATIONS_MIN
        salt = SystemChance().token_bytes(scram_keys.SALT_BYTES)
        salted = scram_keys.salted(mechanism, password, salt, iterations)
        kept = scram_keys.credential(mechanism, salt, iterations, salted)
        return [
            UserScramCredentialRecord(
                name=ADMIN,
                mechanism=mechanism.number,
                salt=kept.salt,
                stored_key=kept.stored_key,
                server_key=kept.server_key,
                iterations=kept.iterations,
            )
        ]

    def format(self, config: NodeConfig) -> None:
        """Make the directories of a node ready that is a cluster by itself, if it is new."""
        disk, chance = Disk(), SystemChance()
        if read_meta(disk, config.metadata_log_dir) is not None:
            return
        credentials = self.credentials()
        if not credentials:
            raise CannotSecure(
                f"{self.files.password} is missing, so nobody could log in: give another --data"
            )
        identity = Identity(uuid_text(chance.uuid()), config.node_id, credentials=credentials)
        formatter = Formatter(disk, config.log_dirs, config.metadata_log_dir)
        for directory in formatter.unformatted(identity):
            formatter.format(directory, identity, SystemClock().now(), chance)

    # -- for clients ------------------------------------------------------------------------------

    def _password(self) -> str | None:
        """The admin's first password; None if somebody has taken it away, as is well."""
        try:
            with open(self.files.password) as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def announce(self, address: str) -> None:
        """Say to whoever started the nodes how clients come in; a terminal may see secrets once."""
        print(self.tell(address, with_secrets=sys.stderr.isatty()), file=sys.stderr, flush=True)

    def tell(self, address: str, *, with_secrets: bool) -> str:
        """What clients need to know now that nodes listen; writes it into the admin's file.

        The text may go to a log: secrets stand in it only where the caller says so.
        """
        password = self._password()
        self._write_properties(address, password)
        shown = password if with_secrets and self.is_new else None
        files = self.files
        width = max(map(len, (files.authority, files.properties, files.password)))
        return _TOLD.format(
            **files._asdict(),
            width=width,
            address=address,
            protocol=PROTOCOL,
            mechanism=MECHANISM,
            user=ADMIN,
            lines=_indented(self._properties(address, shown)),
        )

    def _write_properties(self, address: str, password: str | None) -> None:
        """Only the address is ours to change in a file that is there: somebody may have given the
        admin another password."""
        from penstock.security.authority import write_private

        try:
            with open(self.files.properties) as file:
                found = file.read()
        except FileNotFoundError:
            if password is not None:
                write_private(self.files.properties, self._properties(address, password))
            return
        lines = found.splitlines(keepends=True)
        ours = [f"{_SERVERS}={address}\n" if _is_address(line) else line for line in lines]
        if ours != lines:
            write_private(self.files.properties, "".join(ours))

    def _properties(self, address: str, password: str | None) -> str:
        """Kafka's client properties; without a password, with a word of where it is."""
        lines = {
            _SERVERS: address,
            "security.protocol": PROTOCOL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.files.authority,
            "sasl.mechanism": MECHANISM,
        }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        if password is None:
            return f"{text}# sasl.jaas.config, with the password: see {self.files.properties}\n"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return (
            f'{text}sasl.jaas.config={module} required username="{ADMIN}" password="{password}";\n'
        )


def _is_address(line: str) -> bool:
    return line.startswith(f"{_SERVERS}=")


def _holds_data(data: str) -> bool:
    return any(os.path.exists(os.path.join(data, name)) for name in (META_PROPERTIES, COMPANY_NOTE))


def _names_of(host: str) -> set[str]:
    """Under which names and addresses clients come to this machine."""
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname()}
    if host not in ANY_ADDRESS:
        names.add(host.strip("[]"))
    return {each for each in names if each.isascii()}  # a certificate can name no other


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


_TOLD = """\
Only who proves who they are gets in, and only {user} may do anything, until you give rights.

  {authority:{width}}  the authority that clients trust
  {properties:{width}}  client settings of {user}, in Kafka's words
  {password:{width}}  and the password alone

Kafka's tools and Java's clients (--command-config {properties}):

{lines}
Python, with confluent-kafka:

    settings = {{
        "bootstrap.servers": "{address}",
        "security.protocol": "{protocol}",
        "ssl.ca.location": "{authority}",
        "sasl.mechanism": "{mechanism}",
        "sasl.username": "{user}",
        "sasl.password": open("{password}").read(),
    }}

This command line:

    penstock profile add secure --command-config {properties} --use
    penstock user create alice && penstock acl add --user alice --producer --topic orders
"""
