"""Running pipelines: start, watch, tell, stop."""
