"""The node's loggers and their levels, under Kafka's names for levels, which tools set remotely."""

from __future__ import annotations

import logging

LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's levels, from talkative to silent."""

ROOT = "root"


def logger_levels() -> dict[str, str]:
    """The level that counts for each logger, its own or the one that it inherits."""
    found = {ROOT: _level_name(logging.getLogger().getEffectiveLevel())}
    # Somebody may log for the first time while we look: list() takes the table as it is now.
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            found[name] = _level_name(logger.getEffectiveLevel())
    return found


def set_level(name: str, level: str | None) -> None:
    """Give a logger a level of Kafka's, or None to inherit one again."""
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level_name(level: int) -> str:
    """The most talkative of Kafka's levels that the number still lets through."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
