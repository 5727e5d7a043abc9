"""A pipeline as a project of Spark Declarative Pipelines, as far as that can say the same.

Spark's own pipelines know streaming tables, views and sinks, and run when they are triggered. What
a file says beyond that is not dropped in silence: each such thing becomes a note, and a view that
cannot be carried over refuses to run.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.pipeline.running.graph import used_views
from penstock.pipeline.spec import sinks, sources, steps
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.model import Pipeline, Sink, Source, Step
from penstock.pipeline.spec.shapes import split_window

SPEC_FILE = "spark-pipeline.yml"
CODE_FILE = "transformations/pipeline.py"
SQL_FILE = "transformations/views.sql"

DESCRIBING = {
    "_key": "CAST(key AS STRING)",
    "_headers": "headers",
    "_timestamp": "timestamp",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
}
"""Columns that describe a record, and what Spark's connector calls them."""


@dataclass(slots=True)
class Project:
    """The files of a project, by their paths in it, and what they cannot say."""

    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def project_of(pipeline: Pipeline, storage: str) -> Project:
    """The project that does what the pipeline does; `storage` is where it keeps its progress."""
    writer = _Writer(pipeline)
    body = writer.body()
    settings = {"spark.sql.session.timeZone": "UTC", **pipeline.spark}
    spec = [f"name: {pipeline.name}", f"storage: {json.dumps(storage)}", "libraries:"]
    spec += ["  - glob:", "      include: transformations/**", "configuration:"]
    spec += [f"  {name}: {json.dumps(str(value))}" for name, value in settings.items()]
    files = {SPEC_FILE: "\n".join([*spec, ""]), CODE_FILE: body}
    if writer.statements:
        files[SQL_FILE] = "\n".join(writer.statements)
    return Project(files, writer.notes)


class _Writer:
    """Writes the Python of a project."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.notes: list[str] = []
        self.statements: list[str] = []
        """Views in SQL: a function's statement would be resolved before the views are known."""
        self._pipeline = pipeline
        self._parts: list[str] = []
        self._last = ""
        self._views: list[str] = []
        # Sinks leave out what describes a record, and here nothing can be dropped unless it is
        # known to be there: so what nobody names is not read.
        named = repr((pipeline.steps, pipeline.sinks))
        self._described = {each: own for each, own in DESCRIBING.items() if each in named}

    def body(self) -> str:
        self._general_notes()
        for name, source in self._pipeline.sources.items():
            self._view(name, self._source(name, source))
        for number, step in enumerate(self._pipeline.steps, 1):
            self._add_step(step, step.view or f"step{number}")
        for name, sink in self._pipeline.sinks.items():
            self._add_sink(name, sink)
        head = [f'"""The pipeline {self._pipeline.name}, for `spark-pipelines run`.']
        if self.notes:
            head += ["", "Not carried over:", "", *(f"- {note}" for note in self.notes)]
        head += ['"""', "", "import os", "", "from pyspark import pipelines as dp"]
        head += ["from pyspark.sql import SparkSession", "from pyspark.sql import functions as F"]
        head += ["", "spark = SparkSession.active()", f"KAFKA = {self._kafka()}"]
        return "\n".join([*head, "", *self._parts, ""])

    def _general_notes(self) -> None:
        pipeline = self._pipeline
        if pipeline.on_error.policy != "fail":
            self.notes.append(
                f"on_error: {pipeline.on_error.policy}. Records that cannot be read become rows of "
                "nulls; there are no dead letters."
            )
        if pipeline.trigger.real_time:
            self.notes.append("trigger.real_time: a run takes what is there and ends.")
        elif not pipeline.trigger.available_now:
            self.notes.append("the trigger: a run takes what is there and ends; start it again.")
        if any(isinstance(each, sources.TopicSource) for each in pipeline.sources.values()):
            self.notes.append(f"the group {pipeline.group}: lag is not committed to it.")
        if self._described:
            told = ", ".join(self._described)
            self.notes.append(f"columns that describe a record ({told}) are written like others.")
        self.notes.append("the checkpoint: the project begins where its sources say.")

    def _kafka(self) -> str:
        told = [f'"kafka.bootstrap.servers": {self._pipeline.bootstrap!r}']
        for name in self._pipeline.kafka:
            # Values may be secrets: a file that is written must not hold them.
            told.append(f'"kafka.{name}": os.environ[{_variable(name)!r}]')
            self.notes.append(f"kafka.{name}: set the variable {_variable(name)}.")
        return "{" + ", ".join(told) + "}"

    # Views

    def _view(self, name: str, lines: Iterable[str]) -> None:
        body = "\n".join(f"    {line}" for line in lines)
        shown = f"@dp.temporary_view(name={name!r})\ndef {_identifier(name)}():"
        self._parts.append(f"\n{shown}\n{body}\n")
        self._made(name)

    def _made(self, name: str) -> None:
        self._views.append(name)
        self._last = name

    def _refused(self, name: str, what: str) -> list[str]:
        self.notes.append(f"{name}: {what} has no counterpart.")
        return [f"raise NotImplementedError({f'{name}: {what} has no counterpart'!r})"]

    def _source(self, name: str, source: Source) -> list[str]:
        if isinstance(source, sources.TopicSource):
            lines = self._topic(name, source)
        elif isinstance(source, sources.GeneratorSource):
            options = {"rowsPerSecond": str(source.generate), **source.options}
            lines = [f"rows = spark.readStream.format('rate').options(**{options!r}).load()"]
            made = [f"{text} AS `{column}`" for column, text in source.columns.items()]
            lines += [f"rows = rows.selectExpr({', '.join(map(repr, ['*', *made]))})"]
        elif isinstance(source, sources.FileSource) and not source.growing:
            lines = self._files(name, source)
        else:
            return self._refused(name, "a source of this kind")
        if source.watermark:
            column, _, late = source.watermark.partition(" ")
            lines.append(f"rows = rows.withWatermark({column!r}, {late!r})")
        return [*lines, "return rows"]

    def _topic(self, name: str, source: sources.TopicSource) -> list[str]:
        which = {"subscribePattern": source.pattern} if source.pattern else {}
        options = {
            **(which or {"subscribe": source.topic}),
            "kafka.isolation.level": source.isolation,
            "includeHeaders": "true",
            "failOnDataLoss": "true" if source.data_loss == "fail" else "false",
            **source.options,
        }
        if source.start in ("earliest", "latest") or source.start.startswith("{"):
            options["startingOffsets"] = source.start
        else:
            options["startingOffsets"] = "earliest"
            self.notes.append(f"{name}: `from: {source.start}`; it begins with the earliest.")
        if source.batch_records_max:
            options["maxOffsetsPerTrigger"] = str(source.batch_records_max)
        columns = self._decoded(name, source.value)
        columns += [f"{own} AS {each}" for each, own in self._described.items()]
        return [
            f"options = {{**KAFKA, **{options!r}}}",
            "rows = spark.readStream.format('kafka').options(**options).load()",
            f"rows = rows.selectExpr({', '.join(map(repr, self._parsed(source.value)))})",
            f"rows = rows.selectExpr({', '.join(map(repr, columns))})",
        ]

    def _parsed(self, value: Format) -> list[str]:
        text = "CAST(value AS STRING)"
        if value.format == "json":
            return ["*", f"from_json({text}, {_sql_text(value.schema)}) AS _parsed"]
        if value.format == "csv":
            options = f"map('sep', {_sql_text(value.delimiter)})"
            return ["*", f"from_csv({text}, {_sql_text(value.schema)}, {options}) AS _parsed"]
        return ["*", f"{'value' if value.format == 'binary' else text} AS _parsed"]

    def _decoded(self, name: str, value: Format) -> list[str]:
        if value.format in ("json", "csv"):
            return ["_parsed.*"]
        if value.format not in ("string", "binary"):
            self.notes.append(f"{name}: {value.format} values stay bytes.")
        return ["_parsed AS value"]

    def _files(self, name: str, source: sources.FileSource) -> list[str]:
        form = source.format
        kind = "text" if form.format == "string" else form.format
        schema = f".schema({form.schema!r})" if form.schema else ""
        if form.schema.endswith((".avsc", ".json")):
            self.notes.append(f"{name}: the schema file {form.schema}; write its columns out.")
        reader = f"rows = spark.readStream.format({kind!r}){schema}"
        return [f"{reader}.options(**{dict(source.options)!r}).load({source.files!r})"]

    # Steps

    def _add_step(self, step: Step, name: str) -> None:
        first = step.source or self._last
        read = f"rows = spark.readStream.table({first!r})"
        if isinstance(step, steps.SqlStep):
            statement = self._streaming_sql(step, first)
            self.statements.append(f"CREATE TEMPORARY VIEW `{name}` AS\n{statement};\n")
            self._made(name)
        elif isinstance(step, steps.RouteStep):
            self._route(step, read)
        elif (line := _simple(step)) is not None:
            self._view(name, [read, *line, "return rows"])
        elif isinstance(step, steps.JoinStep) and not step.table:
            other = f"spark.readStream.table({step.join!r}).alias({step.join!r})"
            joined = (
                f"rows.alias({first!r}).join({other}, F.expr({step.condition!r}), {step.how!r})"
            )
            self._view(name, [read, f"return {joined}"])
        else:
            what = type(step).__name__.removesuffix("Step").lower()
            self._view(name, self._refused(name, f"a step `{what}`"))

    def _streaming_sql(self, step: steps.SqlStep, first: str) -> str:
        """The statement, with its views read as streams."""
        statement = step.sql.replace("{}", first).strip().rstrip(";")
        for view in used_views(step, self._views, first):
            pattern = rf"(?i)\b(FROM|JOIN)\s+`?{re.escape(view)}`?\b"
            statement = re.sub(pattern, rf"\1 STREAM({view})", statement)
        return statement

    def _route(self, step: steps.RouteStep, read: str) -> None:
        before: list[str] = []
        for name, condition in step.route.items():
            # Of several conditions that hold, the first takes the row.
            earlier = [f"NOT coalesce({each}, false)" for each in before]
            told = " AND ".join([*earlier, f"({condition})"])
            self._view(name, [read, f"return rows.where({told!r})"])
            before.append(f"({condition})")

    # Sinks

    def _add_sink(self, name: str, sink: Sink) -> None:
        view = sink.source or self._last
        rows = f"spark.readStream.table({view!r})"
        match sink:
            case sinks.TopicSink():
                self._topic_sink(name, sink, rows)
            case sinks.ParquetSink() | sinks.IcebergSink():
                kind, place = (
                    ("parquet", sink.parquet)
                    if isinstance(sink, sinks.ParquetSink)
                    else ("iceberg", sink.iceberg)
                )
                self.notes.append(f"{name}: {place} becomes the table {name} of the warehouse.")
                if isinstance(sink, sinks.IcebergSink) and sink.mode == "upsert":
                    self.notes.append(f"{name}: rows are appended, not replaced by their keys.")
                columns = list(sink.partition_by)
                parted = f", partition_cols={columns!r}" if columns else ""
                self._parts.append(
                    f"\n@dp.table(name={name!r}, format={kind!r}{parted})\n"
                    f"def {_identifier(name)}():\n    return {rows}\n"
                )
            case _:
                self.notes.append(f"{name}: a sink of this kind has no counterpart; left out.")

    def _topic_sink(self, name: str, sink: sinks.TopicSink, rows: str) -> None:
        if sink.delivery == "exactly-once":
            self.notes.append(f"{name}: exactly-once; Spark's own sink writes at least once.")
        text = "CAST(value AS STRING)"
        if sink.value.format == "json":
            text = "to_json(struct(*))"
        columns = [f"{text} AS value"]
        if sink.key:
            columns.append(f"CAST({sink.key} AS STRING) AS key")
        topic = re.fullmatch(r"\{(\w+)\}", sink.topic)
        columns += [f"{topic[1]} AS topic"] if topic else []
        fixed = {} if topic else {"topic": sink.topic}
        self._parts.append(
            f"\ndp.create_sink({name!r}, 'kafka', {{**KAFKA, **{fixed!r}}})\n\n\n"
            f"@dp.append_flow(target={name!r}, name={name + '_flow'!r})\n"
            f"def {_identifier(name)}_flow():\n    rows = {rows}\n"
            f"    return rows.selectExpr({', '.join(map(repr, columns))})\n"
        )


def _simple(step: Step) -> list[str] | None:
    """The lines of a step that is a method of a DataFrame; None if it is none."""
    match step:
        case steps.FilterStep():
            return [f"rows = rows.where({step.filter!r})"]
        case steps.SelectStep():
            return [f"rows = rows.selectExpr({', '.join(map(repr, step.select))})"]
        case steps.RenameStep():
            return [f"rows = rows.withColumnsRenamed({dict(step.rename)!r})"]
        case steps.CastStep():
            return [
                f"rows = rows.withColumn({column!r}, F.expr({f'try_cast(`{column}` AS {kind})'!r}))"
                for column, kind in step.cast.items()
            ]
        case steps.DeduplicateStep():
            late = step.watermark.partition(" ")
            lines = [f"rows = rows.withWatermark({late[0]!r}, {late[2]!r})"] if late[2] else []
            keys = list(step.deduplicate)
            return [*lines, f"rows = rows.dropDuplicatesWithinWatermark({keys!r})"]
        case steps.WindowStep() if not step.session and step.emit == "final":
            return _window(step)
    return None


def _window(step: steps.WindowStep) -> list[str]:
    length, slide = split_window(step.window)
    sizes = ", ".join(map(repr, [length, slide] if slide else [length]))
    keys = ", ".join([f"F.window({step.on!r}, {sizes})", *map(repr, step.by)])
    values = ", ".join(f"F.expr({text!r}).alias({name!r})" for name, text in step.aggregate.items())
    kept = ["window.start AS window_start", "window.end AS window_end", *step.by, *step.aggregate]
    late = [f"rows = rows.withWatermark({step.on!r}, {step.watermark!r})"] if step.watermark else []
    return [
        *late,
        f"rows = rows.groupBy({keys}).agg({values})",
        f"rows = rows.selectExpr({', '.join(map(repr, kept))})",
    ]


def _identifier(name: str) -> str:
    made = re.sub(r"\W", "_", name)
    return f"_{made}" if keyword.iskeyword(made) or made[0].isdigit() else made


def _variable(name: str) -> str:
    return "KAFKA_" + re.sub(r"\W", "_", name).upper()


def _sql_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
