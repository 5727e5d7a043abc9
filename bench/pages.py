"""Memory that is really there before the clock starts.

A virtual machine may hand its free memory back to its host (free page reporting). The next write
into such a page faults in the host, and the guest books that as system time of whoever wrote:
300 MB of fresh page cache then cost 0.7 s instead of 0.08 s, whatever the broker does. Writing a
file and removing it leaves pages behind that are backed, and that the file system takes next.
"""

from __future__ import annotations

import os
import tempfile

MEGABYTES = 800
"""More than what any traffic case writes."""


def back_free_pages(directory: str) -> None:
    """Fill and free page cache on the file system of `directory`."""
    block = os.urandom(1 << 20)
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(MEGABYTES):
            file.write(block)
