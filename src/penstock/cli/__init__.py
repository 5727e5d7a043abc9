"""The `penstock` command.

Heavy imports happen inside commands, so that help answers at once. Enter at `main`.
"""
