"""Coordinators of groups, shares and transactions over one runtime.

Pure machines; the runtime appends and replays. Nothing is built here yet.
"""
