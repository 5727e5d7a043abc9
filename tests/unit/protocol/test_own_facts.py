from __future__ import annotations

import pytest

from codegen.generate import FACTS
from codegen.import_facts import modules_of
from codegen.notation import read_facts, write_facts
from codegen.own import BATCHES, MODULES, NOT_BEFORE, TAG_FIRST
from penstock.protocol.generated.share_records import (
    ShareUpdateKey,
    ShareUpdateValue,
    ShareUpdateValueStateBatch,
)
from penstock.protocol.record_frames import SHARE
from tests.oracle import apache


@pytest.mark.java
def test_the_facts_are_those_of_apaches_jars_and_what_is_ours() -> None:
    there = {path.stem: path.read_text() for path in FACTS.glob("*.facts")}
    assert {there.pop(module).split()[0] for module in MODULES} == {"request"}
    jars = modules_of(apache.install() / "libs")
    assert {module: write_facts(messages) for module, messages in jars.items()} == there


def test_what_is_ours_is_named() -> None:
    own = {
        message.name
        for path in FACTS.glob("*.facts")
        for message in read_facts(path.read_text())
        if f"{NOT_BEFORE}: int64 tag={TAG_FIRST}" in write_facts([message])
    }
    assert own == BATCHES


def test_a_state_batch_without_a_wait_has_the_bytes_of_apaches() -> None:
    batch = ShareUpdateValueStateBatch(first_offset=1, last_offset=2, delivery_count=3)
    plain = SHARE.write_value(ShareUpdateValue(state_batches=[batch]), 0)
    batch.not_before = 1_800_000_000_000
    waiting = SHARE.write_value(ShareUpdateValue(state_batches=[batch]), 0)
    assert (len(plain), len(waiting)) == (40, 40 + 11)
    key = ShareUpdateKey().API_KEY
    assert SHARE.read_value(key, memoryview(plain))[0].state_batches[0].not_before == 0
    assert SHARE.read_value(key, memoryview(waiting))[0].state_batches[0].not_before > 0
