"""Publication of a batch's files, interrupted after every step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.lake_publication import DONE_KEPT, HIDDEN, Manifest, Publication

WRITER = "orders.lake.0123456789ab"
PLACES = ("day=1/a", "day=1/b", "day=2/c", "top")


def staged(publication: Publication, batch: int) -> Manifest:
    attempt = publication.new_attempt(batch)
    paths = []
    for place in PLACES:
        path = os.path.join(attempt, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(f"{batch} {place}")
        paths.append(path)
    return Manifest(batch, publication.plan(batch, paths, suffix=".parquet"), rows=4)


def seen(lake: Path) -> list[str]:
    """What a reader finds that knows nothing of us but to leave hidden folders out."""
    return sorted(
        path.read_text()
        for path in lake.rglob("*.parquet")
        if not any(part.startswith("_") for part in path.relative_to(lake).parts)
    )


def whole(*batches: int) -> list[str]:
    return sorted(f"{batch} {place}" for batch in batches for place in PLACES)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def opened(lake: Path) -> Publication:
    publication = Publication(str(lake), WRITER)
    publication.prepare()
    return publication


def step_count(tmp_path: Path) -> int:
    publication = opened(tmp_path / "count")
    return len(list(publication.steps(staged(publication, 0))))


def test_a_batch_is_in_the_lake_once_wherever_its_publication_was_interrupted(
    tmp_path: Path,
) -> None:
    total = step_count(tmp_path)
    rewritten = 0
    for stop in range(total + 1):
        lake = tmp_path / f"lake{stop}"
        first = opened(lake)
        first.publish(staged(first, 6))
        for step in list(first.steps(staged(first, 7)))[:stop]:
            step.do()
        second = opened(lake)
        if second.last() < 7:
            rewritten += 1
            assert seen(lake) == whole(6), "before its manifest a batch has not begun"
            second.publish(staged(second, 7))
        assert second.last() == 7
        assert seen(lake) == whole(6, 7), f"interrupted after {stop} steps"
        assert os.listdir(lake / HIDDEN / "staging" / WRITER) == []
    assert 0 < rewritten < total


def test_a_batch_is_whole_before_the_query_asks_for_it_again(lake: Path) -> None:
    first = opened(lake)
    steps = list(first.steps(staged(first, 0)))
    renames = [n for n, step in enumerate(steps) if step.name.startswith("rename")]
    for step in steps[: renames[1]]:
        step.do()
    assert len(seen(lake)) == 1
    opened(lake)
    assert seen(lake) == whole(0)


def test_what_a_driver_thought_dead_wrote_is_not_published(lake: Path) -> None:
    zombie = opened(lake)
    late = staged(zombie, 0)
    alive = opened(lake)
    alive.publish(staged(alive, 0))
    with pytest.raises((Problem, FileNotFoundError)):
        zombie.publish(late)
    assert seen(lake) == whole(0)


def test_two_drivers_cannot_publish_the_same_batch(lake: Path) -> None:
    one = opened(lake)
    mine, theirs = staged(one, 0), staged(one, 0)
    one.publish(mine)
    with pytest.raises(Problem, match="published by somebody else"):
        one.publish(theirs)
    assert seen(lake) == whole(0)


def test_a_file_that_somebody_removed_meanwhile_is_told(lake: Path) -> None:
    first = opened(lake)
    manifest = staged(first, 0)
    steps = list(first.steps(manifest))
    written = next(n for n, step in enumerate(steps) if step.name == "write the manifest")
    for step in steps[: written + 1]:
        step.do()
    (lake / manifest.moves[0].staged).unlink()
    with pytest.raises(Problem, match="is missing"):
        opened(lake)


def test_a_damaged_manifest_is_told(lake: Path) -> None:
    opened(lake)
    (lake / HIDDEN / "writers" / WRITER / "00000003.publishing").write_text("{")
    with pytest.raises(Problem, match=r"00000003\.publishing cannot be read"):
        opened(lake)


def test_manifests_of_old_batches_are_forgotten_and_the_last_one_is_not(lake: Path) -> None:
    publication = opened(lake)
    for batch in range(DONE_KEPT + 5):
        publication.publish(Manifest(batch, ()))
    notes = lake / HIDDEN / "writers" / WRITER
    assert len(list(notes.iterdir())) == DONE_KEPT
    assert opened(lake).last() == DONE_KEPT + 4


def test_writers_do_not_take_each_others_names(lake: Path) -> None:
    for writer in ("a.lake.1", "b.lake.2"):
        publication = Publication(str(lake), writer)
        publication.prepare()
        publication.publish(staged(publication, 0))
    assert seen(lake) == sorted(whole(0) * 2)
