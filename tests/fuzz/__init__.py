"""Hostile input: one target for each thing that reads bytes which somebody else wrote.

A target (`target.Target`) is a function that takes any bytes and returns, or raises AssertionError:
only documented exceptions may come out of the code under it, what decodes must encode to something
equal, and time and memory stay within the bounds that the target states. `make fuzz` drives all of
them with atheris, which looks for inputs that reach new code; `make test` replays the corpus and
mutates it for some seconds (tests/property/test_fuzz_short.py).
"""
