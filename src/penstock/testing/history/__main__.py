"""Check history files: python -m penstock.testing.history FILE..."""

from __future__ import annotations

import sys

from penstock.testing.history import History, find, report
from penstock.testing.history.lines import BadLine


def main(paths: list[str]) -> int:
    """0: sound; 1: a promise is broken; 2: the files cannot be read."""
    if not paths:
        print("usage: python -m penstock.testing.history FILE...", file=sys.stderr)
        return 2
    try:
        history = History.read(*paths)
    except (OSError, BadLine) as problem:
        print(f"cannot read the history: {problem}", file=sys.stderr)
        return 2
    verdicts = find(history)
    print(report(history, verdicts), end="")
    return 1 if verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
