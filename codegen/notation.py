"""The notation of protocol facts: what a message is made of, one line per field.

    request FetchRequest key=1 versions=4-18 flexible=12+ listeners=broker,controller
        ClusterId: string 12+ null tag=0 default=null ignorable
        MaxWaitMs: int32
        Topics: []FetchTopic
            Topic: string -12 ignorable entity=topicName

A message line names its kind and its class; a field line has a type, then the versions that carry
it (left out: all of the message's), then properties. Deeper lines are the fields of the struct
above. A struct that several fields share stands below the message's own fields, after `struct`.

    4-18, 12+, -12, 3    from 4 to 18; 12 and above; up to 12; only 3
    null, null=7+        may be null in all of the field's versions, or in these
    tag=0                a tagged field, in all of the field's versions
    default=-1           where it is not zero, empty or false
    ignorable            dropped in silence when the version written has no place for it
    mapkey               part of what makes the element unique
    entity=topicName     what the value stands for
    plain                never compact, although the version is flexible
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

PRIMITIVES = frozenset(
    "bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records".split()  # noqa: SIM905
)

VERSION_LAST = 32767
"""Stands for "and above": versions are int16 on the wire."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty when `first` is above `last`."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def text(self, whole: Versions) -> str:
        """The shortest form, given that nothing outside `whole` matters."""
        if self.first > self.last:
            return "none"
        if self.first <= whole.first and self.last >= whole.last:
            return "all"
        if self.last >= whole.last:
            return f"{self.first}+"
        if self.first <= whole.first:
            return f"-{self.last}"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NEVER = Versions(1, 0)


def versions_of(text: str) -> Versions:
    """The range that `4-18`, `12+`, `-12`, `3` or `none` names."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_LAST)
    first, dash, last = text.partition("-")
    if not dash:
        return Versions(int(first), int(first))
    return Versions(int(first or 0), int(last))


@dataclass(slots=True)
class Field:
    """One field of a message or struct, over all versions."""

    name: str
    type: str
    versions: Versions
    nullable: Versions = NEVER
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False
    mapkey: bool = False
    entity: str | None = None
    plain: bool = False
    fields: list[Field] = field(default_factory=list)

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        return self.element not in PRIMITIVES


@dataclass(slots=True)
class Shape:
    """A struct that stands on its own: a message's body, or one that several fields share."""

    name: str
    fields: list[Field]


@dataclass(slots=True)
class Message:
    """A request, a response, a record or another unit that has versions of its own."""

    kind: str
    name: str
    versions: Versions
    flexible: Versions
    key: int | None = None
    listeners: tuple[str, ...] = ()
    unstable: bool = False
    fields: list[Field] = field(default_factory=list)
    shared: list[Shape] = field(default_factory=list)


def _field_line(it: Field, whole: Versions) -> str:
    words = [f"{it.name}: {it.type}"]
    versions = it.versions.text(whole)
    if versions != "all":
        words.append(versions)
    if it.nullable.first <= it.nullable.last:
        nullable = it.nullable.text(it.versions.within(whole))
        words.append("null" if nullable == "all" else f"null={nullable}")
    if it.tag is not None:
        words.append(f"tag={it.tag}")
    if it.default is not None:
        words.append(f"default={it.default}")
    words += [word for word in ("ignorable", "mapkey", "plain") if getattr(it, word)]
    if it.entity is not None:
        words.append(f"entity={it.entity}")
    return " ".join(words)


def _field_lines(fields: list[Field], whole: Versions, depth: int) -> Iterator[str]:
    for it in fields:
        yield "    " * depth + _field_line(it, whole)
        yield from _field_lines(it.fields, whole, depth + 1)


def _message_lines(it: Message) -> Iterator[str]:
    words = [it.kind, it.name]
    if it.key is not None:
        words.append(f"key={it.key}")
    first, last = it.versions.first, it.versions.last
    words.append(f"versions={first}" if first == last else f"versions={first}-{last}")
    flexible = (
        "none" if it.flexible.first > it.flexible.last else f"{max(it.flexible.first, first)}+"
    )
    words.append(f"flexible={flexible}")
    if it.listeners:
        words.append("listeners=" + ",".join(it.listeners))
    if it.unstable:
        words.append("unstable")
    yield " ".join(words)
    yield from _field_lines(it.fields, it.versions, 1)
    for shape in it.shared:
        yield f"    struct {shape.name}"
        yield from _field_lines(shape.fields, it.versions, 2)


def write_facts(messages: list[Message]) -> str:
    """The text that `read_facts` turns into the same messages."""
    return "\n\n".join("\n".join(_message_lines(it)) for it in messages) + "\n"


def _read_message(words: list[str]) -> Message:
    named = dict(word.split("=", 1) for word in words if "=" in word)
    versions = versions_of(named["versions"])
    return Message(
        kind=words[0],
        name=words[1],
        versions=versions,
        flexible=versions_of(named["flexible"]).within(versions),
        key=int(named["key"]) if "key" in named else None,
        listeners=tuple(named["listeners"].split(",")) if "listeners" in named else (),
        unstable="unstable" in words,
    )


def _read_field(line: str, whole: Versions) -> Field:
    name, _, rest = line.partition(": ")
    kind, *words = rest.split()
    it = Field(name, kind, whole)
    if words and (words[0][0].isdigit() or words[0][0] == "-"):
        it.versions = versions_of(words.pop(0)).within(whole)
    for word in words:
        key, _, value = word.partition("=")
        if key == "null":
            it.nullable = versions_of(value).within(it.versions) if value else it.versions
        elif key == "tag":
            it.tag = int(value)
        elif key in ("default", "entity"):
            setattr(it, key, value)
        elif key in ("ignorable", "mapkey", "plain"):
            setattr(it, key, True)
        else:
            raise ValueError(f"{line!r}: {word!r} is no property of a field")
    return it


def read_facts(text: str) -> list[Message]:
    """The messages of one file of facts, in its order."""
    messages: list[Message] = []
    levels: list[list[Field]] = []  # levels[d] takes the fields that are indented d steps
    for line in text.splitlines():
        body = line.lstrip()
        if not body or body.startswith("#"):
            continue
        depth = (len(line) - len(body)) // 4
        if depth == 0:
            messages.append(_read_message(body.split()))
            levels = [[], messages[-1].fields]
        elif body.startswith("struct "):
            messages[-1].shared.append(Shape(body.split()[1], []))
            levels[depth + 1 :] = [messages[-1].shared[-1].fields]
        else:
            it = _read_field(body, messages[-1].versions)
            levels[depth].append(it)
            levels[depth + 1 :] = [it.fields]
    return messages
