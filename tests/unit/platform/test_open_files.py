"""Descriptors: as many as the system allows, shared between logs and connections."""

from __future__ import annotations

import resource

from penstock.platform.open_files import LOGS_SHARE_MAX, logs_share, raise_limit


def test_the_soft_limit_is_lifted_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = min(256, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        assert raise_limit() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_logs_leave_a_third_to_connections_and_never_starve() -> None:
    assert logs_share(20_000) == 13_333
    assert logs_share(16) == 64
    assert logs_share(10**9) == LOGS_SHARE_MAX
