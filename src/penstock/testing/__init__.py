"""For tests, ours and other people's: an embedded broker, a pytest plugin, checkers.

Shipped. Enter at `Broker`.
"""
