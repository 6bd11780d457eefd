"""Reserves ports for servers that need to know theirs before they start.

A port from the system is free again once it is closed, and the system may give it to any other
connection before the server listens on it: parallel tests lost servers that way. These ports are
from a range that the system doesn't assign, and a lock reserves each for as long as the process
lives. The Rust tests do the same in `rookery-needs`, with the same locks.
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
    """A port of the loopback interface, reserved for this process until it ends."""
    folder = Path(tempfile.gettempdir()) / f"rookery-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(RANGE, len(RANGE)):
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                # Set as by servers, so that connections that have just ended don't block the port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return port
    raise OSError(f"no port is free among {RANGE.start} to {RANGE.stop}")
