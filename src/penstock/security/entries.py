"""Access control entries, laid out so that a question finds those that bear on it.

A question names a principal, an address, a kind of resource and a name. Entries are kept by kind,
then by principal, then by the pattern of names, then by host; what is left of them is two bit
fields, the operations that they allow and those that they deny. Adding or removing an entry touches
one such cell, however many there are.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.operations import Operation, bits
from penstock.model.resources import WILDCARD, PatternType, Permission

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.metadata.acls import Acl

ALL_OPERATIONS = bits(*Operation)
EVERYBODY = "User:*"
_ANYBODY = ""
"""Under which all entries are found, whomever they are about: no principal has this name."""

_MAPPED_BITS = 96
"""Of an address of version 6 before the one of version 4 that it stands for."""

_OF_DESCRIBE = bits(Operation.DESCRIBE)
_OF_DESCRIBE_CONFIGS = bits(Operation.DESCRIBE_CONFIGS)
_IMPLIED: dict[int, int] = {
    Operation.ALL: ALL_OPERATIONS,
    Operation.READ: _OF_DESCRIBE,
    Operation.WRITE: _OF_DESCRIBE,
    Operation.DELETE: _OF_DESCRIBE,
    Operation.ALTER: _OF_DESCRIBE,
    Operation.ALTER_CONFIGS: _OF_DESCRIBE_CONFIGS,
}
"""What an operation brings along where it is allowed. To deny one denies no other."""


class Verdict(NamedTuple):
    """Operations as bit fields."""

    allowed: int
    denied: int

    def __or__(self, other: Verdict) -> Verdict:
        return Verdict(self.allowed | other.allowed, self.denied | other.denied)


SILENT = Verdict(0, 0)


class _Cell(NamedTuple):
    """Entries that differ in nothing but what they allow or deny, a byte for each."""

    entries: bytes = b""
    verdict: Verdict = SILENT

    def plus(self, acl: Acl) -> _Cell:
        return _cell(self.entries + _packed(acl.operation, acl.permission))

    def minus(self, acl: Acl) -> _Cell:
        return _cell(self.entries.replace(_packed(acl.operation, acl.permission), b"", 1))


_EMPTY = _Cell()


@lru_cache(maxsize=256)
def _packed(operation: int, permission: int) -> bytes:
    # What a later release may add is kept and means nothing.
    known = operation if 0 <= operation <= max(Operation) else Operation.UNKNOWN
    return bytes((known << 1 | (permission == Permission.DENY),))


@lru_cache(maxsize=1024)
def _cell(entries: bytes) -> _Cell:
    allowed = denied = 0
    for each in entries:
        operation = each >> 1
        if each & 1:
            denied |= ALL_OPERATIONS if operation == Operation.ALL else 1 << operation
        else:
            allowed |= 1 << operation | _IMPLIED.get(operation, 0)
    return _Cell(entries, Verdict(allowed, denied))


# -- hosts ----------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """An address in whichever way it is written; None if it is none."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _network_of(host: str) -> IPv4Network | IPv6Network | None:
    try:
        network = ip_network(host, strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:  # addresses are read so too
            return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


class _Hosts:
    """What is said about one principal and one pattern, by where the principal comes from."""

    __slots__ = ("_cells", "_networks")

    def __init__(self) -> None:
        self._cells: dict[object, _Cell] = {}
        self._networks: list[IPv4Network | IPv6Network] = []

    def __bool__(self) -> bool:
        return bool(self._cells)

    def add(self, acl: Acl) -> None:
        key = _host_key(acl.host)
        if isinstance(key, IPv4Network | IPv6Network) and key not in self._cells:
            self._networks.append(key)
        self._cells[key] = self._cells.get(key, _EMPTY).plus(acl)

    def remove(self, acl: Acl) -> None:
        key = _host_key(acl.host)
        left = self._cells.get(key, _EMPTY).minus(acl)
        if left.entries:
            self._cells[key] = left
        elif self._cells.pop(key, None) is not None and key in self._networks:
            self._networks.remove(key)  # type: ignore[arg-type]

    def verdict(self, host: str) -> Verdict:
        cells = self._cells
        found = cells.get(WILDCARD, _EMPTY).verdict
        if len(cells) == 1 and WILDCARD in cells:
            return found
        address = address_of(host)
        found |= cells.get(address or host, _EMPTY).verdict
        for network in self._networks:
            if address is not None and address in network:
                found |= cells[network].verdict
        return found


@lru_cache(maxsize=4096)
def _host_key(host: str) -> object:
    """What an entry's host is found by: an address, a network, or the text as it is, which for
    anything but `*` matches no client."""
    if host == WILDCARD:
        return host
    found = _network_of(host) if "/" in host else address_of(host)
    return host if found is None else found


# -- names ----------------------------------------------------------------------------------------


class Patterns:
    """What is said about one principal, by the names of resources of one kind."""

    __slots__ = ("_lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Hosts] = {}
        self.prefixed: dict[str, _Hosts] = {}
        self._lengths: dict[int, int] = {}
        """How many prefixes there are of each length: a name is looked up by its beginnings of
        these lengths only."""

    def add(self, acl: Acl) -> None:
        of_name = self._of(acl)
        if acl.resource_name not in of_name:
            of_name[acl.resource_name] = _Hosts()
            if of_name is self.prefixed:
                length = len(acl.resource_name)
                self._lengths[length] = self._lengths.get(length, 0) + 1
        of_name[acl.resource_name].add(acl)

    def remove(self, acl: Acl) -> None:
        of_name = self._of(acl)
        hosts = of_name.get(acl.resource_name)
        if hosts is None:
            return
        hosts.remove(acl)
        if not hosts:
            del of_name[acl.resource_name]
            if of_name is self.prefixed:
                length = len(acl.resource_name)
                self._lengths[length] -= 1
                if not self._lengths[length]:
                    del self._lengths[length]

    def _of(self, acl: Acl) -> dict[str, _Hosts]:
        return self.prefixed if acl.pattern_type == PatternType.PREFIXED else self.literal

    def covering(self, name: str) -> Iterator[_Hosts]:
        """What is said about a name, by whichever pattern."""
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            hosts = self.literal.get(literal)
            if hosts is not None:
                yield hosts
        for length in self._lengths:
            if length <= len(name):
                hosts = self.prefixed.get(name[:length])
                if hosts is not None:
                    yield hosts


class Entries:
    """All entries, to be asked."""

    __slots__ = ("_by_kind", "_notes")

    def __init__(self, acls: Iterable[Acl] = (), *, mentions: bool = False) -> None:
        """With `mentions` it can also be asked whether anything is said about a resource."""
        self._by_kind: dict[int, dict[str, Patterns]] = {}
        self._notes = (_ANYBODY,) if mentions else ()
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        by_principal = self._by_kind.setdefault(acl.resource_type, {})
        for principal in (acl.principal, *self._notes):
            patterns = by_principal.get(principal)
            if patterns is None:
                patterns = by_principal[principal] = Patterns()
            patterns.add(acl)

    def remove(self, acl: Acl) -> None:
        by_principal = self._by_kind.get(acl.resource_type, {})
        for principal in (acl.principal, *self._notes):
            patterns = by_principal.get(principal)
            if patterns is not None:
                patterns.remove(acl)
                if not patterns.literal and not patterns.prefixed:
                    del by_principal[principal]

    def mention(self, kind: int, name: str) -> bool:
        """Whether any entry, about whomever, covers a resource."""
        patterns = self._by_kind.get(kind, {}).get(_ANYBODY)
        return patterns is not None and next(patterns.covering(name), None) is not None

    def verdict(self, who: str, host: str, kind: int, name: str) -> Verdict:
        """What all entries that bear on a question say."""
        found = SILENT
        for patterns in self.about(who, kind):
            for hosts in patterns.covering(name):
                found |= hosts.verdict(host)
        return found

    def about(self, who: str, kind: int) -> Iterator[Patterns]:
        """What is said about a principal, by name and as one of everybody."""
        by_principal = self._by_kind.get(kind, {})
        for principal in (who, EVERYBODY) if who != EVERYBODY else (who,):
            patterns = by_principal.get(principal)
            if patterns is not None:
                yield patterns
