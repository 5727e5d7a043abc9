"""All targets by name. A module here is a kind of input; each ends with its list of targets."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import (
    certificates,
    files,
    frames,
    logins,
    messages,
    records,
    replays,
    texts,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (frames, messages, records, replays, files, texts, logins, certificates)
    for target in module.TARGETS
}
