"""What a pipeline writes: each kind writes a batch so that writing it again changes nothing."""
