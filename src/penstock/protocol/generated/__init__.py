"""Message codecs, emitted by codegen/generate.py."""
