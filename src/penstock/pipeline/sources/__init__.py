"""What pipelines read.

One module per kind of source, each with `open_source(context, name, spec) -> View`. `intake` turns
records into columns and decides, by the pipeline's `on_error`, what becomes of those that cannot be
read.
"""
