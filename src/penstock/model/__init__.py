"""Ids, offsets, ranges, limits, error codes and configuration keys: the nouns of every room.

Owns: plain values and their names. Pure: it reads no clock, no file and no socket, and imports
no other room. Enter at `ids` for the number types, `errors` for Kafka's error codes, `config`
for configuration keys.
"""
