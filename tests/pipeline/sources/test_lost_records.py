"""Which records a pipeline had not reached."""

from __future__ import annotations

from pathlib import Path

from penstock.pipeline.sources.lost_records import reached_offsets


def query(root: Path, name: str, done: int, *sources: str) -> None:
    folder = root / "queries" / name
    for part in ("commits", "offsets"):
        (folder / part).mkdir(parents=True)
    for batch in range(done + 1):
        (folder / "commits" / str(batch)).touch()
        (folder / "commits" / f".{batch}.crc").touch()
        (folder / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *sources]))
    (folder / "offsets" / str(done + 1)).write_text('v1\n{}\n{"a": {"0": 999}}')


def test_what_counts_is_the_last_finished_batch_of_the_slowest_query(tmp_path: Path) -> None:
    query(tmp_path, "one", 11, '{"a": {"0": 10, "1": 7}}', '{"files": {"x#1": {"at": 3}}}')
    query(tmp_path, "two", 2, "-", '{"a": {"0": 4}}', '{"at": "5"}')
    assert reached_offsets(str(tmp_path)) == {("a", 0): 4, ("a", 1): 7}


def test_a_pipeline_that_never_finished_a_batch_has_reached_nothing(tmp_path: Path) -> None:
    assert reached_offsets(str(tmp_path)) == {}
    (tmp_path / "queries" / "one" / "offsets").mkdir(parents=True)
    assert reached_offsets(str(tmp_path)) == {}
