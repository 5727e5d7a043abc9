"""Files that were made to do harm, and files that are none."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import yaml

from penstock.pipeline.spec.binding import NAMED_MAX, PROBLEMS_MAX
from penstock.pipeline.spec.nodes import DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX
from tests.pipeline.spec.files import MINIMAL, problems

SECONDS_MAX = 10


@pytest.fixture(autouse=True, params=["libyaml", "without"])
def _refused_soon(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    if request.param == "without":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SECONDS_MAX


def test_a_file_that_is_too_large_is_refused() -> None:
    (problem,) = problems(b"#" * (FILE_BYTES_MAX + 1))
    assert problem.what == "the file has more than 1 MiB"


def test_a_file_that_nests_too_deeply_is_refused() -> None:
    (problem,) = problems(f"{MINIMAL}steps: {'[' * 100_000}")
    assert problem.what == f"more than {DEPTH_MAX} levels are nested here"


def test_a_file_of_too_many_values_is_refused() -> None:
    (problem,) = problems(f"{MINIMAL}steps: [{'a,' * NODES_MAX}]")
    assert problem.what.startswith(f"the file describes more than {NODES_MAX} values")


def test_a_small_file_that_stands_for_a_huge_one_is_refused() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for number in range(1, 30):
        aliases = ", ".join([f"*a{number - 1}"] * 10)
        lines.append(f"a{number}: &a{number} [{aliases}]")
    (problem,) = problems("\n".join(lines))
    assert problem.what.startswith(f"the file describes more than {NODES_MAX} values")


def test_a_value_that_holds_itself_is_refused() -> None:
    (problem,) = problems("name: &a [*a]\n")
    assert problem.what == "the alias *a stands for nothing that is complete before it"


def test_too_many_parts_in_one_place_are_refused() -> None:
    sinks = "".join(f"  s{number}: {{console: 1}}\n" for number in range(NAMED_MAX + 1))
    (problem,) = problems(f"name: x\nsources: {{a: {{topic: a}}}}\nsinks:\n{sinks}")
    assert problem.what == f"more than {NAMED_MAX} stand here"


def test_only_the_first_of_very_many_problems_are_told() -> None:
    found = problems("".join(f"key{number}: 1\n" for number in range(NODES_MAX // 2 - 1)))
    assert len(found) == PROBLEMS_MAX


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!include", "!!binary", "!!set"]
)
def test_tags_are_refused(tag: str) -> None:
    found = problems(f"{MINIMAL}checkpoint: {tag} {{a: b}}\n")
    assert "has no meaning here" in found[0].what


def test_bytes_that_are_no_text_are_told_with_their_line() -> None:
    (problem,) = problems(b"name: x\n\xff\n")
    assert str(problem) == "orders.yml:2: the file is not text in UTF-8\n  Save it as UTF-8."


def test_characters_that_yaml_does_not_know_are_told_with_their_line() -> None:
    (problem,) = problems("name: x\nsinks: \x07\n")
    assert problem.place is not None
    assert problem.place.line == 2
