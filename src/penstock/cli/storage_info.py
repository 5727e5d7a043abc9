"""Whose a node's directories are, as `penstock storage info` shows it."""

from __future__ import annotations

import os
from typing import NamedTuple

from penstock.model.config import NodeConfig
from penstock.platform.disk import Disk
from penstock.storage.log_directory import read_meta


class Found(NamedTuple):
    """Directories that exist, what the first formatted one says, and what is wrong."""

    directories: list[str]
    meta: dict[str, str] | None
    problems: list[str]


def look_at(config: NodeConfig) -> Found:
    """Look at all directories of a node."""
    found = Found([], None, [])
    disk = Disk()
    for directory in sorted({*config.log_dirs, config.metadata_log_dir}):
        if not os.path.isdir(directory):
            missing = "is not a directory" if os.path.exists(directory) else "does not exist"
            found.problems.append(f"{directory} {missing}")
            continue
        found.directories.append(directory)
        try:
            meta = read_meta(disk, directory)
        except (OSError, ValueError) as problem:
            found.problems.append(f"Error loading {directory}/meta.properties: {problem}")
            continue
        if meta is None:
            found.problems.append(f"{directory} is not formatted.")
        elif found.meta is None:
            found = found._replace(meta=meta)
        elif meta.get("cluster.id") != found.meta.get("cluster.id"):
            found.problems.append("Mismatched cluster IDs between storage directories.")
        elif meta.get("node.id") != found.meta.get("node.id"):
            found.problems.append("Mismatched node IDs between storage directories.")
    return found
