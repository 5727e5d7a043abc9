"""What a struct looks like in one version. Versions that look the same share their code."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.names import snake
from codegen.notation import Field, Message, Versions

WIDTH = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip

CODE = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "float64": "d", "uuid": "16s",
}  # fmt: skip


@dataclass(slots=True)
class Class:
    """One class to emit: a message, or a struct inside one."""

    name: str
    fields: list[Field]
    message: Message
    parts: dict[str, Class]
    """The classes that the message's fields may name, by Kafka's name."""

    @property
    def is_message(self) -> bool:
        return self.fields is self.message.fields

    def part(self, it: Field) -> Class:
        return self.parts[it.element]


@dataclass(frozen=True, slots=True)
class Slot:
    """A field that is present in the version."""

    attr: str
    type: str
    nullable: bool
    compact: bool
    default: str
    optional: bool
    """Whether the attribute may hold None, be it in another version."""
    part: Layout | None
    spliced: bool = False
    """Records that may stay in a file: a broker writes responses, and reads requests."""
    tag: int | None = None

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def is_fixed(self) -> bool:
        return self.type in WIDTH


@dataclass(frozen=True, slots=True)
class Absence:
    """A field that the version lacks."""

    attr: str
    default: str
    ignorable: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct in one version, or in several that look the same."""

    cls: str
    flexible: bool
    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    absent: tuple[Absence, ...]

    def size_min(self) -> int:
        """The fewest bytes that a value can take: what bounds the count of an array."""
        size = 1 if self.flexible else 0
        return size + sum(_size_min(it) for it in self.slots)

    def holds_records(self) -> bool:
        return any(
            it.spliced or (it.part is not None and it.part.holds_records()) for it in self.slots
        )


def _size_min(it: Slot) -> int:
    if it.type in WIDTH:
        return WIDTH[it.type]
    if it.part is not None and not it.is_array:
        return 1 if it.nullable else it.part.size_min()
    if it.compact:
        return 1
    return 2 if it.type == "string" else 4


def is_optional(it: Field) -> bool:
    """Whether the Python attribute may be None."""
    return it.default == "null" or can_be_null(it) or is_absent_struct(it)


def can_be_null(it: Field) -> bool:
    """Whether some version has a form for null."""
    return it.nullable.first <= it.nullable.last


def is_absent_struct(it: Field) -> bool:
    """A tagged struct that is not sent is None to us: that costs nothing to make."""
    return it.is_struct and not it.is_array and it.tag is not None and not can_be_null(it)


def default_of(it: Field) -> str:
    """The default as a Python expression; FRESH for lists and structs of the message's own."""
    if it.default == "null":
        return "None"
    if it.is_array:
        return "FRESH"
    if it.is_struct:
        return "None" if is_absent_struct(it) else "FRESH"
    if it.type == "bool":
        return "True" if it.default == "true" else "False"
    if it.type == "string":
        return repr(it.default or "")
    if it.type == "uuid":
        return "ZERO_UUID"
    if it.type == "records":
        return "None" if can_be_null(it) else 'b""'
    if it.type == "bytes":
        return 'b""'
    if it.type == "float64":
        return str(float(it.default or 0))
    return it.default or "0"


def set_if(it: Field, cls: Class, value: str) -> str:
    """A condition that holds when `value` is not the field's default."""
    default = default_of(it)
    if it.is_struct and not it.is_array and it.default != "null":
        fresh = f"{value} != {cls.part(it).name}()"
        return f"{value} is not None and {fresh}" if is_absent_struct(it) else fresh
    if default == "None":
        return f"{value} is not None"
    if default == "FRESH":
        return f"({value} is None or {value})" if can_be_null(it) else value
    if it.type == "bool":
        return f"not {value}" if default == "True" else value
    return f"{value} != {default}"


def layout_of(cls: Class, version: int, flexible: Versions) -> Layout:
    """How `cls` looks in `version` of the message it belongs to."""
    slots: list[Slot] = []
    tagged: list[Slot] = []
    absent: list[Absence] = []
    for it in cls.fields:
        attr, default = snake(it.name), default_of(it)
        if version not in it.versions:
            absent.append(Absence(attr, default, it.ignorable))
            continue
        slot = Slot(
            attr=attr,
            type=it.type,
            nullable=version in it.nullable,
            compact=version in flexible and not it.plain,
            default=default,
            optional=is_optional(it),
            part=layout_of(cls.part(it), version, flexible) if it.is_struct else None,
            spliced=it.type == "records" and cls.message.kind != "request",
            tag=it.tag,
        )
        (slots if it.tag is None else tagged).append(slot)
    tagged.sort(key=lambda it: it.tag or 0)
    return Layout(
        cls=cls.name,
        flexible=version in flexible,
        slots=tuple(slots),
        tagged=tuple(tagged),
        absent=tuple(absent),
    )


def classes_of(messages: list[Message]) -> list[Class]:
    """The classes of one module, parts before the wholes that hold them.

    A part has Kafka's name; where two messages of the module use one name for different
    structs, the message's name goes before it.
    """
    found: list[tuple[Message, list[tuple[str, list[Field]]]]] = []
    for message in messages:
        parts: list[tuple[str, list[Field]]] = []
        _collect(message.fields, parts)
        for shape in message.shared:
            _collect(shape.fields, parts)
            parts.append((shape.name, shape.fields))
        found.append((message, parts))
    counts: dict[str, int] = {}
    for message, parts in found:
        for name, _ in [*parts, (message.name, [])]:
            counts[name] = counts.get(name, 0) + 1
    classes = []
    for message, parts in found:
        known: dict[str, Class] = {}
        for name, fields in parts:
            chosen = name if counts[name] == 1 else message.name + name
            known[name] = Class(chosen, fields, message, known)
            classes.append(known[name])
        classes.append(Class(message.name, message.fields, message, known))
    return classes


def _collect(fields: list[Field], parts: list[tuple[str, list[Field]]]) -> None:
    for it in fields:
        if it.fields:
            _collect(it.fields, parts)
            parts.append((it.element, it.fields))
