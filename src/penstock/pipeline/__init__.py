"""Pipelines on Spark, assembled from a file.

`spec` is the file: what may stand in it, read and checked without Spark. `sources`, `formats`,
`steps` and `sinks` turn its parts into DataFrames; `assembly` joins them into streaming queries;
`running` runs, watches and stops them; `spark` finds Java, jars and a session.

This room is a client: it talks to brokers over the wire, through confluent-kafka and Spark's own
connector, and imports none of the broker's rooms but `model`. It writes no execution engine.
Enter at `spec.read.read_pipeline` and `running.run.run_pipeline`.
"""
