"""What a pipeline reads: each kind opens a stream of rows, and of records it could not read."""
