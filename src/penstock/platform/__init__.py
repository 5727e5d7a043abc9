"""Ports to the world: clock, disk, network and randomness, and the real ones behind them.

Owns: every call to the operating system's clock, files and random numbers. Never decides
anything. The simulated ones live in `penstock.testing`. Enter at `clock`, `chance`, `disk`.
"""
