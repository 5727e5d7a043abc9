"""What Penstock adds to Apache's messages: a few requests, which clients are not shown, and tagged
fields, which whoever does not know them skips.

    NotBefore    of a state batch: the wall time in milliseconds at which its records become
                 available again. A record that was released waits out its back-off; the time has to
                 outlive the broker that set it. Left out when it is 0: the bytes are then Apache's.

The tags are far above any of Apache's. Versions stay as they are: a broker of another make reads
and writes the same records, and only forgets the wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.notation import Field, Message

TAG_FIRST = 10_000

MODULES = frozenset(("cancel_delayed_records", "describe_delayed_records"))
"""Facts of requests that are Penstock's alone: delayed records are listed and cancelled by them."""

NOT_BEFORE = "NotBefore"

BATCHES = {
    "WriteShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "ShareSnapshotValue",
    "ShareUpdateValue",
}
"""Messages whose state batches carry the time."""


def is_own(field: Field) -> bool:
    """Whether a field of one of Apache's messages is ours."""
    return field.tag is not None and field.tag >= TAG_FIRST


def add_own(message: Message) -> None:
    """Give a message of Apache's the fields that are ours."""
    if message.name not in BATCHES:
        return
    for batches in _named("StateBatches", message.fields):
        batches.fields.append(
            Field(NOT_BEFORE, "int64", batches.versions, tag=TAG_FIRST, ignorable=True)
        )


def _named(name: str, fields: list[Field]) -> Iterator[Field]:
    for field in fields:
        if field.name == name:
            yield field
        yield from _named(name, field.fields)
