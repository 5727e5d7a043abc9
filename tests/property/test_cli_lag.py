"""Whatever a broker answers, the age of a record is a time or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.group_lag import first_time
from penstock.records.builder import BatchBuilder

times = st.integers(0, 2**41)


@given(st.binary(max_size=400), st.integers(0, 2**63 - 1))
def test_no_bytes_break_it(data: bytes, offset: int) -> None:
    found = first_time(memoryview(data), offset)
    assert found is None or isinstance(found, int)


@given(
    batches=st.lists(st.lists(times, min_size=1, max_size=5), min_size=1, max_size=4),
    codec=st.sampled_from((0, 1, 2, 3, 4)),
    flip=st.none() | st.tuples(st.integers(0, 10_000), st.integers(1, 255)),
    data=st.data(),
)
def test_the_time_is_that_of_the_first_record_from_there_on(
    batches: list[list[int]], codec: int, flip: tuple[int, int] | None, data: st.DataObject
) -> None:
    written: list[int] = []
    out = bytearray()
    for batch in batches:
        builder = BatchBuilder(base_offset=len(written), compression=codec)
        for time in batch:
            builder.append(None, b"value", time)
        written += batch
        out += builder.build()
    offset = data.draw(st.integers(0, len(written) + 1))
    if flip is not None:  # damage is survived, whatever it makes of the answer
        out[flip[0] % len(out)] ^= flip[1]
        first_time(memoryview(out), offset)
        return
    expected = written[offset] if offset < len(written) else None
    assert first_time(memoryview(out), offset) == expected
