"""The release of Spark that Penstock's jars fit."""

from __future__ import annotations

from penstock.pipeline.problem import Problem

SERIES = "4.1"
_ADVICE = "`pip install 'penstock[spark]'` brings it"


def check_release() -> str:
    """The version of PySpark here, if there is one and the jars are made for it."""
    try:
        import pyspark
    except ImportError as fault:
        absent = isinstance(fault, ModuleNotFoundError) and fault.name == "pyspark"
        what = "is not installed" if absent else f"cannot be imported: {fault}"
        raise Problem(f"pipelines run on Spark, and PySpark {what}", _ADVICE) from None
    found = str(pyspark.__version__)
    if not found.startswith(SERIES + "."):
        raise Problem(f"PySpark {found} is installed; Penstock's jars fit {SERIES}", _ADVICE)
    return found
