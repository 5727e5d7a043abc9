"""Retry, dead letters, delay and replay over ordinary clients.

Imports none of the broker's rooms but `model`. Nothing is built here yet.
"""
