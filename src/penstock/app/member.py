"""The process of one broker among several: it does not outlive its supervisor.

python -m penstock.app.member KEY=VALUE...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.platform.owner import stop_with_owner


def main(words: Sequence[str]) -> int:
    stop_with_owner()
    from penstock.app.run import run
    from penstock.model.config.node import NodeConfig

    settings = dict(word.split("=", 1) for word in words)
    return run(lambda: NodeConfig.of(settings), formats=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
