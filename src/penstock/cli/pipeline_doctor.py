"""`penstock pipeline doctor`: find or fetch what pipelines need."""

from __future__ import annotations

from penstock.cli.failure import say
from penstock.cli.options import Output
from penstock.cli.output import Shape, Table, answer


def doctor(output: Output = Shape.TABLE) -> None:
    """Find or fetch what pipelines need: Java, Spark, jars.

    A Java of the machine is used if Spark runs on it, and one from the package index otherwise.
    Jars are fetched once, checked and kept in the user's cache. PENSTOCK_JARS names a folder that
    holds them, for machines without a network; PENSTOCK_MAVEN_REPOSITORY a mirror to fetch from;
    PENSTOCK_JAVA_HOME a Java.
    """
    from penstock.pipeline.spark.doctor import examine

    health = examine(say)
    document = {
        "java_home": str(health.java.home),
        "java_version": health.java.version,
        "spark_version": health.spark_version,
        "jars": [str(jar) for jar in health.jars],
        "findings": [each._asdict() for each in health.findings],
    }
    rows = [(each.what, each.found, each.done) for each in health.findings]
    answer(document, [Table(("what", "found", "done"), rows)], output)
