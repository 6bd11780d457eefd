"""Measures what a delivery costs Rookery, with epoll and with io_uring, beside bare sockets that
carry the same bytes without XMPP.

    ROOKERY=target/release/rookery python3 tests/load/bare.py [--rounds 10] [--seconds 2]

Each round runs `rookery bench peers` for each load, with the three one after another in an order
that turns from round to round. A row shows the median and the quartiles of the server's CPU time
for each delivery or login, and those of the ratios to the bare sockets within the rounds. Bare sockets have
a write for each message, so servers that write several at once may be cheaper; loads without bare
sockets show only the two interfaces. `--only chat` runs the loads whose names contain "chat".
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from interfaces import quarters
from loads import table

BINARY = os.path.abspath(os.environ.get("ROOKERY", "target/release/rookery"))
SERVERS = {"raw": "raw", "rookery": "Rookery", "rookery-io-uring": "Rookery-io_uring"}
LOADS = ["chat-1", "chat-8", "max-messages", "multicast", "presence-storm-5", "muc-big", "muc-huge", "idle"]


def costs(result, load):
    """Returns the CPU time for each delivery or login in µs, by the name of the row."""
    if load == "multicast":
        parts = [part for part in result["parts"] if part["n"] in (101, 901)]
        return {f"multicast, {part['curve']}, {part['n']}": part["us_cpu_per_destination"] for part in parts}
    if load == "idle":
        return {"a login": 1e6 / result["login"]["per_cpu_second"]}
    return {load: result["server_cpu"]["us_per_operation"]}


def measured(load, order, seconds):
    """Returns the costs of each server by the name of the row."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        words = ["bench", "peers", "--scenarios", load, "--only", ",".join(order), "--seconds", str(seconds), "--out", folder]
        ended = subprocess.run([BINARY, *words], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        for server in order:
            file = Path(folder, f"{load}-{SERVERS[server]}.json")
            if file.exists():
                for row, cost in costs(json.loads(file.read_text()), load).items():
                    found.setdefault(row, {})[server] = cost
    return found


def main(options):
    names, found = list(SERVERS), {}
    for number in range(options.rounds):
        order = names[number % 3 :] + names[: number % 3]
        for load in (load for load in LOADS if options.only in load):
            for row, servers in measured(load, order, options.seconds).items():
                found.setdefault(row, []).append(servers)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    rows = []
    for row, rounds in found.items():
        cell = lambda server: quarters([servers[server] for servers in rounds]) if server in rounds[0] else "–"
        ratio = lambda server: quarters([servers[server] / servers["raw"] for servers in rounds]) if "raw" in rounds[0] else "–"
        both = quarters([servers["rookery-io-uring"] / servers["rookery"] for servers in rounds])
        rows.append([row, *map(cell, names), ratio("rookery"), ratio("rookery-io-uring"), both])
    heads = ["load", "bare, µs", "epoll, µs", "io_uring, µs", "epoll to bare", "io_uring to bare", "io_uring to epoll"]
    print(table(heads, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default="")
    main(parser.parse_args())
