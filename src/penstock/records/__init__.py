"""Record batches in Kafka's v2 format: header views, iteration, builders, compression, validation.

Pure: bytes in, bytes out. It never touches a file or a socket. Enter at `batch`.
"""
