"""Files to begin with: what they need is in their comments, and the generator's needs nothing."""

from __future__ import annotations

import os
import re

SCHEMA_FILE = os.path.join(".penstock", "pipeline.schema.json")
"""Where the schema lies, seen from the pipeline file."""

_HEAD = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"

TEMPLATES = {
    "topic-to-lake": """\
# JSON records of a topic, by day, into a lake of Parquet. Each record is there exactly once.
name: {name}
sources:
  orders:
    topic: orders                # it must be there: penstock topic create orders
    value: {{format: json, schema: "id long, amount double, at timestamp"}}
steps:
  - filter: amount > 0           # SQL; more steps may follow, each reads the one before
sinks:
  lake: {{parquet: lake/orders, partition_by: day(at)}}
on_error: dlq                    # records that are no such JSON go to the topic {name}.dlq
trigger: 10 seconds              # or available-now, to take what is there and end
""",
    "topic-to-topic": """\
# Counts of each minute out of one topic, into another one. Each count is there exactly once.
name: {name}
sources:
  hits:
    topic: hits                  # it must be there: penstock topic create hits
    value: {{format: json, schema: "path string, status int, at timestamp"}}
    watermark: at 1 minute       # rows that are later than this are left out
steps:
  - window: 1 minute
    on: at
    by: path
    aggregate: {{hits: count(*), failures: count_if(status >= 500)}}
sinks:
  counts: {{topic: hits.counts, key: path}}
on_error: dlq                    # records that are no such JSON go to the topic {name}.dlq
trigger: 5 seconds
""",
    "log-to-topic": """\
# A growing log, line by line, into a topic. Each line is there exactly once.
name: {name}
sources:
  lines:
    files: logs/*.log            # also those that appear later, and those that are renamed
    growing: true
steps:
  - filter: value <> ''
  - select: [value, "concat_ws(':', _file, _line) AS position"]
sinks:
  raw: {{topic: logs.raw, value: string, headers: {{position: position}}}}
trigger: 2 seconds               # or available-now, to take what is there and end
""",
    "database-to-topic": """\
# New and changed rows of a table into a topic. Each is there exactly once.
name: {name}
sources:
  orders:
    jdbc: jdbc:postgresql://${{DB_HOST:-localhost}}/shop
    table: orders
    column: changed_at           # rises with each change: rows above the last one are new
    user: ${{DB_USER:-postgres}}
    password: ${{DB_PASSWORD:-}} # or ${{file:/run/secrets/shop}}; never into this file
sinks:
  changes: {{topic: shop.orders, key: id}}
trigger: 10 seconds
""",
    "generator-to-topic": """\
# Made-up orders, ten a second, into a topic: something to try other pipelines with.
name: {name}
sources:
  made:
    generate: 10                 # rows a second
    columns: {{id: value, amount: "round(rand() * 100, 2)", at: timestamp}}
steps:
  - select: [id, amount, at]
sinks:
  orders: {{topic: orders, key: id}}
trigger: 1 second
""",
}
"""Name: the file, with `{{name}}` for the pipeline's name."""


def template_text(template: str, file: str) -> str:
    """The file of that template, its pipeline named after the file it will be written to."""
    stem = os.path.basename(file).partition(".")[0]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_") or "pipeline"
    return _HEAD + TEMPLATES[template].format(name=name[:100])
