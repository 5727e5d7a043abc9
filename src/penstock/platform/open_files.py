"""How many descriptors this process may have, and who gets them."""

from __future__ import annotations

import resource

LOGS_SHARE_MAX = 100_000
"""Beyond this, more descriptors for logs would only cost kernel memory."""


def raise_limit() -> int:
    """Lift the soft limit to the hard one, which needs no privilege; answers what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft  # refused by the system: what was allowed before still is
    return hard


def logs_share(limit: int) -> int:
    """Descriptors for logs: two thirds, and the rest for connections and what libraries open."""
    return max(64, min(limit * 2 // 3, LOGS_SHARE_MAX))
