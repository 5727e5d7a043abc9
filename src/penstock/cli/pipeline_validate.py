"""`penstock pipeline validate`: tell everything that is wrong with pipeline files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import Failure, complain
from penstock.cli.options import Output
from penstock.cli.output import Shape, answer

if TYPE_CHECKING:
    from penstock.pipeline.problem import Problem
    from penstock.pipeline.spec.check import Checked


def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Pipeline files, or folders of them.")
    ],
    output: Output = Shape.TABLE,
) -> None:
    """Check pipeline files, and say everything that is wrong with them.

    Nothing is started, imported or contacted: keys, values, variables, names of views, schema and
    Python files are checked, and what only Spark can know is not.
    """
    from penstock.pipeline.spec.check import check_files

    checked = check_files(files)
    if output is Shape.TABLE:
        for each in checked:
            if each.pipeline:
                print(f"{each.file}: ok")
            for problem in each.problems:
                complain(str(problem))
    else:
        answer([_document(each) for each in checked], (), output)
    count = sum(len(each.problems) for each in checked)
    if count:
        raise Failure(f"{count} problem{'' if count == 1 else 's'} found")


def _document(checked: Checked) -> dict[str, object]:
    return {
        "file": checked.file,
        "valid": checked.pipeline is not None,
        "name": checked.pipeline.name if checked.pipeline else None,
        "problems": [_problem(each) for each in checked.problems],
    }


def _problem(problem: Problem) -> dict[str, object]:
    place = problem.place
    return {
        "line": place.line if place and place.line else None,
        "path": place.path if place and place.path else None,
        "what": problem.what,
        "advice": problem.advice,
    }
