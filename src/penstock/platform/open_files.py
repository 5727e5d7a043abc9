"""How many descriptors this process may have, and who gets them."""

from __future__ import annotations

import resource

LOGS_SHARE_MAX = 100_000
"""Beyond this, more descriptors for logs would only cost kernel memory."""

CONNECTIONS_SHARE_MAX = 100_000
"""Beyond this, one event loop would be busy with those who have nothing to say."""

LIBRARIES_SHARE = 64


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


def connections_share(limit: int) -> int:
    """Descriptors for connections: what logs leave, but for a few that libraries open."""
    return max(64, min(limit - logs_share(limit) - LIBRARIES_SHARE, CONNECTIONS_SHARE_MAX))


def logs_share(limit: int) -> int:
    """Descriptors for logs: two thirds, and the rest for connections and what libraries open."""
    return max(64, min(limit * 2 // 3, LOGS_SHARE_MAX))
