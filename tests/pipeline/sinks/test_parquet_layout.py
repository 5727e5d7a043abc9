"""How a batch is spread over files, learnt from the batch before."""

from __future__ import annotations

import pytest

from penstock.pipeline.sinks.lake_layout import Layout, Written, next_layout
from penstock.pipeline.sinks.lake_sizes import size_text

MB = 1 << 20


@pytest.mark.parametrize(
    ("last", "gather"),
    [
        (Written(rows=1000, bytes=MB, files=8, folders=2), True),
        (Written(rows=1000, bytes=60 * MB, files=8, folders=2), True),
        (Written(rows=1000, bytes=200 * MB, files=100, folders=2), False),
        (Written(rows=1000, bytes=200 * MB, files=4, folders=2), False),
    ],
)
def test_rows_are_brought_together_where_files_were_small_and_few_bytes_in_all(
    last: Written, gather: bool
) -> None:
    assert next_layout(last, 128 * MB).gather is gather


def test_a_file_gets_as_many_rows_as_its_size_allows() -> None:
    last = Written(rows=1000, bytes=10 * MB, files=1, folders=1)
    assert next_layout(last, 100 * MB).file_rows_max == 10_000


def test_before_the_first_batch_and_after_an_empty_one_nothing_is_known() -> None:
    assert next_layout(None, MB) == Layout()
    assert next_layout(Written(rows=0, bytes=0, files=0, folders=0), MB) == Layout()


def test_sizes_are_written_for_people() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 5 * MB)] == ["0 B", "1023 B", "1.5 KB", "5.0 MB"]
