"""Bytes to columns, and columns to bytes."""
