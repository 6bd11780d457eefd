"""What it costs the server to be watched: its CPU under the same load, with nobody watching, with `rookery top` and with `rookery profile`.

    ROOKERY=target/release/rookery python3 tests/load/watching.py --rounds 10 --seconds 5 --rate 5000

Starts a server of its own on loopback and one load of messages at a fixed rate, which goes on all the time. Each round measures the
three one after the other, in an order that turns from round to round; what is watched is compared with the unwatched
stretch of the same round, and the median of the differences is told with the quarters around it. Needs nothing but Python 3.11.
"""

import argparse
import asyncio
import os
import statistics
import sys

from server import spent, started

BINARY = os.path.abspath(os.environ.get("ROOKERY", "target/release/rookery"))
WAYS = ["nobody", "top", "profile"]


async def run(server, *arguments):
    return await asyncio.create_subprocess_exec(
        BINARY, *arguments, cwd=server.folder, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )


async def stretch(server, way, seconds):
    """Seconds of CPU that the server takes in so many seconds."""
    config = ["--config", "rookery.toml"]
    watcher = None
    if way == "top":
        watcher = await run(server, *config, "top", "--json")
    elif way == "profile":
        watcher = await run(server, *config, "profile", "--seconds", str(seconds + 10), "--output", "profile.folded")
    # What begins has begun.
    await asyncio.sleep(1.5)
    before, _ = spent(server.process.pid)
    await asyncio.sleep(seconds)
    after, memory = spent(server.process.pid)
    if watcher:
        watcher.kill()
        await watcher.wait()
    return after - before, memory


async def main(options):
    async with started() as server:
        file = server.folder / "accounts.csv"
        await (await run(server, "bench", "register", "--domain", "localhost", "--users", str(options.users), "--csv", str(file))).wait()
        server.command("user", "import", str(file))
        await server.stop()
        await server.start()
        length = options.rounds * len(WAYS) * (options.seconds + 3) + 60
        load = await run(
            server, "bench", "run", "max-messages", "--host", f"127.0.0.1:{server.port}", "--domain", "localhost",
            "--users", str(options.users), "--rate", str(options.rate), "--seconds", str(length),
        )  # fmt: skip
        await asyncio.sleep(options.warm_up)
        # The tables of the first profile are made before anything is measured.
        await stretch(server, "profile", 1)
        found = {way: [] for way in WAYS}
        for number in range(options.rounds):
            turned = WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]
            for way in turned:
                cpu, memory = await stretch(server, way, options.seconds)
                found[way].append(cpu)
                assert load.returncode is None, "the load has ended"
        load.kill()
        await load.wait()
        idle = statistics.median(found["nobody"]) / options.seconds
        print(f"nobody: {100 * idle:.1f} % of a core at {options.rate} messages/s among {options.users} users; {memory >> 20} MiB at the end")
        for way in WAYS[1:]:
            differences = [(watched - alone) / alone * 100 for watched, alone in zip(found[way], found["nobody"])]
            low, median, high = statistics.quantiles(differences, n=4)
            print(f"{way}: {median:+.2f} % of the server's CPU (quarters {low:+.2f} to {high:+.2f}, {options.rounds} rounds)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=15)
    sys.exit(asyncio.run(main(parser.parse_args())))
