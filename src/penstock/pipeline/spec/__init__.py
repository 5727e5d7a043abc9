"""The pipeline file: what may stand in it (`model`), read and checked (`read`), without Spark."""
