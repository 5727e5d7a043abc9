"""The pipeline file: what may stand in it, read and checked, without Spark.

`model`, with `sources`, `steps`, `sinks` and `formats`, says it in dataclasses, one field for each
key; `entries` carries what a key means, and `keys` reads it off again. `read` makes a pipeline of a
file, by `nodes` (YAML with lines), `variables`, `binding` (nodes to classes), `shapes` (spellings),
`rules` (what must agree) and `references` (views); `check` does so with many files. `schema` and
`reference` write the model down for editors and for people, `needs` tells what a pipeline needs
beside Spark, `templates` are files to begin with.

Nothing here imports Spark, or runs code that a file names. Enter at `read.read_pipeline`.
"""
