"""The process behind `Broker`: a node that does not outlive whoever started it.

    python -m penstock.testing.child HOST PORT DATA KEEP GUARD [KEY=VALUE...]

KEEP is `keep`, or `drop` for data that nobody wants once the owner is gone. GUARD is `open`, or
`secure` for what `penstock up --secure` starts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.platform.owner import stop_with_owner


def main(words: Sequence[str]) -> int:
    host, port, data, keep, guard, *settings = words
    overrides = dict(each.split("=", 1) for each in settings)
    orphaned = stop_with_owner()
    from penstock.app import run_up

    try:
        return run_up(data, host, int(port), overrides, secure=guard == "secure")
    finally:
        if orphaned.is_set() and keep == "drop":
            import shutil

            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
