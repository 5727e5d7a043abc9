"""Checking many pipeline files at once, alone and beside each other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from penstock.pipeline.problem import Place, Problem, Problems
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.read import read_pipeline

SUFFIXES = (".yml", ".yaml")


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, and what it holds or what is wrong with it."""

    file: str
    pipeline: Pipeline | None
    problems: tuple[Problem, ...] = ()


def pipeline_files(path: str) -> list[str]:
    """The pipeline files of a folder, in order; a path that is no folder is a file itself."""
    if not os.path.isdir(path):
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError as mistake:
        raise Problem(f"the folder cannot be read: {mistake.strerror}", "", Place(path)) from None
    found = [os.path.join(path, name) for name in names if name.endswith(SUFFIXES)]
    if not found:
        raise Problem(
            "the folder holds no pipeline files",
            f"Their names end with {' or '.join(SUFFIXES)}.",
            Place(path),
        )
    return found


def check_files(
    paths: Iterable[str], environment: Mapping[str, str] | None = None
) -> list[Checked]:
    """Every file, and every file of every folder, read and compared with the ones before it."""
    checked = [_check(file, environment) for path in paths for file in _files(path)]
    return list(_with_names_compared(checked))


def _files(path: str) -> Iterator[str | Checked]:
    try:
        yield from pipeline_files(path)
    except Problem as problem:
        yield Checked(path, None, (problem,))


def _check(file: str | Checked, environment: Mapping[str, str] | None) -> Checked:
    if isinstance(file, Checked):
        return file
    try:
        return Checked(file, read_pipeline(file, environment))
    except Problems as problems:
        return Checked(file, None, problems.found)


def _with_names_compared(checked: Iterable[Checked]) -> Iterator[Checked]:
    first: dict[str, str] = {}
    for each in checked:
        name = each.pipeline.name if each.pipeline else ""
        other = first.setdefault(name, each.file)
        if name and other != each.file:
            problem = Problem(
                f"{other} is called {name!r} as well",
                "A name stands for one pipeline: its checkpoint and its group. Rename one of them.",
                Place(each.file, 0, "name"),
            )
            each = replace(each, pipeline=None, problems=(*each.problems, problem))
        yield each
