"""Kafka's numbers for what rights are about: kinds of resources, patterns of names, permissions."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """A kind of thing that ACLs protect."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in an ACL, or in a question about ACLs, is meant."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The only resource of type CLUSTER."""

WILDCARD = "*"
"""As a literal name: every resource. As a host: every address."""
