"""Measures the cost of a delivery with epoll and with io_uring: the same loads on both, one after
the other.

    ROOKERY=target/release/rookery python3 tests/load/interfaces.py --rounds 7 --seconds 4

Starts two servers on loopback with the same accounts; one is idle while the other is measured. Each
round runs each load on both, in an order that alternates between rounds. A row shows the median and
the quartiles of the server's CPU time per delivery, and the median of the ratios within the rounds.
`--only chat` runs the loads whose names contain "chat". Needs only Python 3.11.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys

from server import started

BINARY = os.path.abspath(os.environ.get("ROOKERY", "target/release/rookery"))
WAYS = ["epoll", "io_uring"]
USERS = 2000
LOADS = {
    "chat, 1 pair, one message in flight": ["chat", "--pairs", "1", "--window", "1"],
    "chat, 1000 pairs, one message in flight": ["chat", "--pairs", "1000", "--window", "1"],
    "chat, 1000 pairs, eight in flight": ["chat", "--pairs", "1000", "--window", "8"],
    "chat, 100 pairs by TLS, one in flight": ["chat", "--pairs", "100", "--window", "1", "--tls", "starttls"],
    "2000 users, 5000 messages a second": ["max-messages", "--users", "2000", "--rate", "5000"],
    "room of 500": ["muc-big", "--rate", "60"],
    "multicast to 101": ["multicast", "--from", "101", "--to", "101", "--ways", "bcc", "--rounds", "5000"],
    "presence of 300 to 300, each every five seconds": ["presence-storm", "--users", "300", "--every", "5"],
}


async def command(server, *arguments):
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(BINARY, *arguments, cwd=server.folder, stdout=pipe, stderr=pipe)
    said, wrong = await process.communicate()
    assert process.returncode == 0, f"{arguments}: {said.decode()}{wrong.decode()}"


async def measured(server, load, seconds):
    """Returns the server's CPU time for each delivery, in microseconds."""
    out = server.folder / "result.json"
    length = ["--part-seconds" if load[0] == "multicast" else "--seconds", str(seconds)]
    await command(
        server, "bench", "run", *load, *length, "--host", f"127.0.0.1:{server.port}", "--server-pid", str(server.process.pid),
        "--out", str(out),
    )  # fmt: skip
    result = json.loads(out.read_text())
    if result["parts"]:
        return result["parts"][0]["us_cpu_per_destination"]
    return result["server_cpu"]["us_per_operation"]


async def prepare(server):
    file = server.folder / "accounts.csv"
    await command(server, "bench", "register", "--domain", "localhost", "--users", str(USERS), "--csv", str(file))
    server.command("user", "import", str(file), "--allow-short")
    await server.stop()
    await server.start()


async def main(options):
    loads = {name: load for name, load in LOADS.items() if options.only in name}
    # These limits allow more than the defaults: 101 recipients, and gigabytes in a minute.
    tables = "\n[modules.multicast]\nlocal_messages = 1000\nminute_bytes = 0\n"
    async with started(tables, 'io = "epoll"') as first, started(tables, 'io = "io_uring"') as second:
        servers = dict(zip(WAYS, [first, second]))
        for server in servers.values():
            await prepare(server)
        found = {name: {way: [] for way in WAYS} for name in loads}
        for number in range(options.rounds):
            for name, load in loads.items():
                for way in WAYS if number % 2 == 0 else WAYS[::-1]:
                    found[name][way].append(await measured(servers[way], load, options.seconds))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    print("| load | epoll, µs | io_uring, µs | ratio |\n| --- | ---: | ---: | ---: |")
    for name, ways in found.items():
        ratios = [ring / epoll for epoll, ring in zip(*ways.values())]
        cells = [quarters(ways[way]) for way in WAYS] + [quarters(ratios)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def quarters(some):
    if len(some) < 2:
        return f"{some[0]:.2f}"
    low, median, high = statistics.quantiles(some, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f}–{high:.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--only", default="")
    sys.exit(asyncio.run(main(parser.parse_args())))
