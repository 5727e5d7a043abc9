"""What the tests and the benchmark measure Penstock against.

Owns: fetching and running Apache Kafka (`apache`), running either broker as a child process
(`nodes`), Apache's command-line tools in one warm JVM (`tools`), and a client so plain that it can
say wrong things (`wire`). Never imports Penstock's rooms: an oracle that shares code with what it
judges agrees with its mistakes.
"""
