"""Ports for servers that have to be told theirs before they start.

A port that the system gives out is free again once it is let go, and it may give it to the next
connection of anybody before the server listens on it: tests side by side lost servers that way.
These are of a range that it doesn't give out by itself, and each is held by a lock for as long as
the process lives. The Rust tests have the same in `rookery-needs`, with the same locks.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

RANGE = range(20_000, 30_000)
_held = []


def free_port():
    """A port of the loopback interface that is this process's own until it ends."""
    folder = Path(tempfile.gettempdir()) / f"rookery-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(RANGE, len(RANGE)):
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                # As servers do it: connections that have just ended are in nobody's way.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return port
    raise OSError(f"no port is free among {RANGE.start} to {RANGE.stop}")
