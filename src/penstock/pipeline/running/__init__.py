"""Running pipelines: start, watch, tell, stop.

Owns a pipeline's life: the session it runs in, the queries at work, what they have done and how
far they lag, and where other terminals can read it. It never touches a record; `assembly` and the
rooms behind it do. Enter at `run.run_pipeline`; `supervise` runs a folder of pipelines.
"""
