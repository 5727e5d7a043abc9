"""Penstock beside Apache Kafka, on one machine, with the same unmodified clients.

Owns: the cases and their targets (`cases`), the clients (`rdkafka`, Apache's own through
`tests.oracle`), what is measured of a process (`process`), and how it is shown (`report`, `chart`).
Never compares numbers of two runs: each result is a ratio of medians over interleaved rounds.
Enter with `python -m bench --help`.
"""
