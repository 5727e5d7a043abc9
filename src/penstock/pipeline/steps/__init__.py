"""What happens to rows between sources and sinks.

One module per kind of step (`assembly.STEPS`), each with
`apply(context, step, name, views) -> Mapping[str, View]`. A step only builds frames: nothing is
read or computed here. Steps that work on single columns keep the columns that describe a record
(those whose names begin with an underscore); SQL and Python keep what they select.

Whatever Spark would refuse is refused here, while the step's line in the file is still known:
`refusal` says it in the words of the file, `stream.accept` asks Spark before the query starts.
"""
