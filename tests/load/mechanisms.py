"""Measures the server's CPU time for a login by each SASL mechanism, the first one of each account
and later ones.

    ROOKERY=target/release/rookery python3 tests/load/mechanisms.py --users 500 --rounds 6

Starts its own server on loopback, with 4096 iterations for passwords, and lets `rookery bench
run reconnect-storm` log all accounts in: once, and then wave after wave. In each round, every
mechanism has a new process of the server, so that it remembers no password. A login lasts until the
resource is bound. Needs only Python 3.11.
"""

import argparse
import asyncio
import os
import statistics
import sys

from server import spent, started

BINARY = os.environ.get("ROOKERY", "target/release/rookery")
MECHANISMS = ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]


async def storm(server, mechanism, users, waves):
    """Returns the server's CPU seconds for everybody's login, and `waves` more of each."""
    before, _ = spent(server.process.pid)
    words = ["run", "reconnect-storm", "--users", users, "--waves", waves, "--away", 0, "--mechanism", mechanism]
    words += ["--host", f"127.0.0.1:{server.port}", "--domain", "localhost", "--password", "secret"]
    bench = await asyncio.create_subprocess_exec(
        BINARY, "bench", *map(str, words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await bench.communicate()
    assert bench.returncode == 0, said.decode()
    return spent(server.process.pid)[0] - before


async def main(options):
    found = {mechanism: ([], []) for mechanism in MECHANISMS}
    async with started() as server:
        file = server.folder / "accounts.csv"
        file.write_text("".join(f"user{number:07}@localhost,secret\n" for number in range(options.users)))
        server.command("user", "import", str(file), "--allow-short")
        for number in range(options.rounds):
            for mechanism in MECHANISMS[number % 4 :] + MECHANISMS[: number % 4]:
                await server.stop()
                await server.start()
                first = await storm(server, mechanism, options.users, 0)
                later = await storm(server, mechanism, options.users, options.waves)
                found[mechanism][0].append(first / options.users * 1000)
                found[mechanism][1].append(later / options.users / (options.waves + 1) * 1000)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print("| mechanism | first login, ms | later ones, ms |\n| --- | ---: | ---: |")
    for mechanism, costs in found.items():
        cells = []
        for cost in costs:
            low, middle, high = statistics.quantiles(cost, n=4)
            cells.append(f"{middle:.3f} ({low:.3f}–{high:.3f})")
        print(f"| {mechanism} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--waves", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    asyncio.run(main(parser.parse_args()))
