"""Partitions as this node holds them: leading, following, watermarks, parked requests.

Owns what a leader promises. It never parses a request. Enter at `partition`.
"""
