"""Requests in, replies out: dispatch, fetch sessions, reconcile, one handler file per API.

Owns the mapping from Kafka's APIs to the rooms below. Enter at `dispatch` and `broker`.
"""
