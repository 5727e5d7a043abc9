"""Kafka's wire format: primitives, the registry of APIs, generated message codecs.

Pure. It never interprets a message. Enter at `registry`; `codegen/` emits `generated/`.
"""
