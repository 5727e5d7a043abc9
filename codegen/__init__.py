"""The protocol's facts, and the generator that turns them into `penstock.protocol.generated`.

`facts/` holds one file per generated module, in the notation that `notation.py` reads and
writes. `import_facts.py` refreshes them from Apache's published jars; `generate.py` emits code.
"""
