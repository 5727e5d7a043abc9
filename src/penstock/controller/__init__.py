"""Decides about topics, brokers, placement, configurations and features.

Pure machines turn a request and an image into records and a reply. Enter at `driver`.
"""
