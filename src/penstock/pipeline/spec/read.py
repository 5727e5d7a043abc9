"""Reading a pipeline file: YAML, variables, the model, references; all mistakes at once."""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.pipeline.problem import Place, Problem, Problems
from penstock.pipeline.spec.binding import Binder, TooMany
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.nodes import FILE_BYTES_MAX, Keyed, parse
from penstock.pipeline.spec.references import References
from penstock.pipeline.spec.variables import Variables


def read_pipeline(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> Pipeline:
    """The pipeline that a file describes, checked as far as one can without Spark.

    Variables come from `environment`; from that of this process, if it is not given.
    `Problems` tells of everything that is wrong with it. Nothing is imported and nothing is run.
    """
    file = os.fspath(path)
    try:
        with open(file, "rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as mistake:
        why = getattr(mistake, "strerror", None) or str(mistake)
        raise Problems(
            (
                Problem(
                    f"the file cannot be read: {why}",
                    "`penstock pipeline init FILE` writes one to begin with.",
                    Place(file),
                ),
            )
        ) from None
    return pipeline_of(file, content, os.environ if environment is None else environment)


def pipeline_of(file: str, content: bytes, environment: Mapping[str, str]) -> Pipeline:
    """The pipeline in the content of a file; other files that it names begin at its folder."""
    root = parse(file, content)
    if not isinstance(root, Keyed):
        raise Problems(
            (
                Problem(
                    "this is no pipeline: keys and values are wanted",
                    "Begin with `name:`, `sources:` and `sinks:`; `penstock pipeline init FILE` "
                    "writes an example.",
                    Place(file, root.line),
                ),
            )
        )
    folder = os.path.dirname(os.path.abspath(file))
    variables = Variables(environment, folder)
    binder = Binder(folder, variables)
    references = References(file, variables.expand)
    try:
        pipeline = binder.part(Pipeline, root, Place(file, root.line))
        references.check(root)
    except TooMany:
        pass  # the first of them will do
    if problems := binder.problems + references.problems:
        raise Problems(tuple(sorted(problems, key=_line)))
    made: Pipeline = pipeline
    return made


def _line(problem: Problem) -> int:
    return problem.place.line if problem.place else 0
