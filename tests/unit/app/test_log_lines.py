"""Each record is one line of the log, whatever clients put into names."""

from __future__ import annotations

import io
import logging

import pytest

from penstock.app.log_lines import OneLine, one_line

FORGED = "x\n2026-01-01 00:00:00,000 INFO penstock.audit: {}"


@pytest.fixture
def lines() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(lines: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(lines)
    handler.setFormatter(OneLine())
    logger = logging.Logger("penstock.test")
    logger.addHandler(handler)
    return logger


def test_a_name_with_a_line_break_makes_no_second_line(
    log: logging.Logger, lines: io.StringIO
) -> None:
    log.warning("group %s: gone", FORGED)
    [line] = lines.getvalue().splitlines()
    assert "x\\n2026-01-01" in line
    assert line.endswith("{}: gone")


@pytest.mark.parametrize("evil", ["\r", "\x1b[2J", "\u2028", "\x85", "\u202e", "\0", "\ud800"])
def test_terminals_are_told_nothing(evil: str, log: logging.Logger, lines: io.StringIO) -> None:
    log.warning("client %s", evil)
    assert evil not in lines.getvalue()
    assert len(lines.getvalue().splitlines()) == 1


def test_tracebacks_stand_behind_a_mark(log: logging.Logger, lines: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed", stack_info=True)
    first, *rest = lines.getvalue().splitlines()
    assert first.endswith("ERROR penstock.test: failed")
    assert rest
    assert all(line.startswith("  | ") for line in rest)


def test_what_can_be_printed_stays_as_it_is() -> None:
    assert one_line("grüße {0} %s ${jndi:x}") == "grüße {0} %s ${jndi:x}"
