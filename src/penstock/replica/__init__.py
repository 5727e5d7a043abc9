"""Partitions as this node holds them: leading, following, watermarks, parked requests.

Owns what a leader promises and what a follower decides. It never parses a request. Enter at
`partition`, and for followers at `fetching`.
"""
