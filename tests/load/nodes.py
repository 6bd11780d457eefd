#!/usr/bin/env python3
"""Measures the cost of a cluster's nodes, and the sessions that they carry.

    ROOKERY=target/release/rookery python3 tests/load/nodes.py cost \\
        [--nodes 1,2,4,10] [--rate 3000] [--rounds 3]
    ROOKERY=target/release/rookery python3 tests/load/nodes.py sessions [--nodes 10] [--each 19000]

`cost` gives the same load to a plain server and to clusters of these sizes, one after another in
each round: messages between two people, and copies in a room. "unsteered": clients connect to the
nodes in turn. "steered": each connects to the home node of its account. The CPU times of the nodes,
of Redis and of PostgreSQL are reported separately. Archives are off, since their cost is the same
everywhere. A process with less work spends more CPU time on each operation, since it does less each
time it wakes: the second ratio compares with a plain server that has as much work as one node.

`sessions` logs people in on `--nodes` nodes, leaves them idle, kills a node, and shows the sessions
that resume, and after how long.

Starts PostgreSQL and Redis (or Valkey) from Debian's packages.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from cluster import BINARY, CONFIG, Node, Redis
from databases import Postgres, spent_by
from loads import PASSWORD, People, bench, middle, table


class Plain(Node):
    """A server without a cluster."""

    def __init__(self, url, redis, folder):
        super().__init__(1, url, redis, folder)
        text = (self.folder / "rookery.toml").read_text()
        (self.folder / "rookery.toml").write_text(text[: text.index("[cluster]")])


class Nodes:
    """A context manager for nodes, or a plain server, with their own database."""

    def __init__(self, database, count, people, archive=False, level="info"):
        self.database, self.redis, self.count = database, Redis(), count
        self.folder = tempfile.TemporaryDirectory(prefix="rookery-nodes-")
        url = database.url(database.database())
        if count:
            self.nodes = [Node(number + 1, url, self.redis, self.folder.name) for number in range(count)]
        else:
            self.nodes = [Plain(url, self.redis, self.folder.name)]
        for node in self.nodes:
            file = node.folder / "rookery.toml"
            # PostgreSQL allows a hundred connections by default.
            text = file.read_text().replace("connections = 8\n", "connections = 4\n").replace('level = "info"', f'level = "{level}"')
            file.write_text(text if archive else text + "[modules.archive]\nenabled = false\n")
        self.people = people

    def __enter__(self):
        file = Path(self.folder.name, "people.xml")
        self.people.export(file)
        first = self.nodes[0]
        first.start()
        first.wait()
        first.command("user", "import", file, "--allow-short")
        for node in self.nodes[1:]:
            node.start()
        for node in self.nodes:
            node.wait()
        time.sleep(3)
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.end(signal.SIGKILL)
        self.redis.remove()
        self.folder.cleanup()

    def hosts(self, steered):
        """Returns the hosts to which clients connect in turn."""
        ports = {f"n{node.number}": node.port for node in self.nodes}
        if not steered:
            return ",".join(f"127.0.0.1:{port}" for port in ports.values())
        names = "\n".join(f"{name}@localhost" for name in self.people.names())
        words = [BINARY, "--data-dir", str(self.nodes[0].folder), "node", "home", "-"]
        found = subprocess.run(words, input=names, text=True, check=True, capture_output=True).stdout
        return ",".join(f"127.0.0.1:{ports[line.split()[1]]}" for line in found.splitlines())

    def measure(self, steered, scenario, *options):
        """Runs a load. Returns CPU time per operation in µs of the nodes, Redis and the database,
        the 99th percentile of latency in ms, lost messages, and peak memory in MiB.
        """
        pids = [node.process.pid for node in self.nodes]
        hosts = self.hosts(steered)
        # `loads` takes the port and the process of a server.
        server = SimpleNamespace(port=hosts.removeprefix("127.0.0.1:"), process=SimpleNamespace(pid=",".join(map(str, pids))))
        before = spent_by([self.redis.process.pid]), self.database.cpu()
        result = bench(server, scenario, *options)
        redis, database = spent_by([self.redis.process.pid]) - before[0], self.database.cpu() - before[1]
        count = result["server_cpu"]["total_s"] * 1e6 / result["server_cpu"]["us_per_operation"]
        return {
            "nodes": result["server_cpu"]["us_per_operation"],
            "redis": redis * 1e6 / count,
            "database": database * 1e6 / count,
            "p99": result["latency"]["p99_us"] / 1e3,
            "lost": result["lost"] + result["errors"],
            "memory": result["memory"]["peak"] / 2**20,
        }


LOADS = {
    "messages": lambda options: ("max-messages", "--users", options.users, "--rate", options.rate),
    "copies in rooms": lambda options: ("muc-many", "--rooms", 20, "--occupants", 20, "--users", options.users, "--rate", options.rate / 20),
}


def cost(database, options):
    counts = [int(count) for count in options.nodes.split(",")]
    ways = [(count, steered) for count in counts for steered in ([False, True] if count > 1 else [False])]
    found = {}

    def measure(round_, nodes, load, rate, key):
        words = LOADS[load](SimpleNamespace(users=options.users, rate=rate))
        one = nodes.measure(key[1], *words, "--seconds", options.seconds, "--warm-up", 2)
        found.setdefault((load, *key), []).append(one)
        print(f"[{round_ + 1}/{options.rounds}] {load}, {key}, {rate:.0f} a second: {one}", flush=True)

    for round_ in range(options.rounds):
        with Nodes(database, 0, People(options.users)) as plain:
            for load in LOADS:
                for share in sorted({1, *counts}):
                    measure(round_, plain, load, options.rate / share, (0, False, share))
        for count, steered in ways:
            with Nodes(database, count, People(options.users)) as nodes:
                for load in LOADS:
                    measure(round_, nodes, load, options.rate, (count, steered, 1))
    for load in LOADS:
        cpu = lambda *key: statistics.median(one["nodes"] for one in found[load, *key])
        rows = []
        for count, steered, share in [(0, False, share) for share in sorted({1, *counts})] + [(*way, 1) for way in ways]:
            runs = found[load, count, steered, share]
            column = lambda key, digits=2: middle([one[key] for one in runs], digits)
            name = f"{count}, {'steered' if steered else 'unsteered'}" if count > 1 else ("1" if count else f"no cluster, 1/{share} of the load")
            of_all, of_share = cpu(count, steered, share) / cpu(0, False, 1), cpu(count, steered, share) / cpu(0, False, max(count, share))
            lost = sum(one["lost"] for one in runs)
            rows.append([name, column("nodes"), f"{of_all:.2f}", f"{of_share:.2f}", column("redis"), column("database"), column("p99", 1), column("memory", 0), lost])
        print(f"\n{load}\n")
        heads = ["nodes", "nodes' CPU, µs", "ratio", "ratio, same load each", "Redis, µs", "PostgreSQL, µs", "p99, ms", "memory, MiB", "lost"]
        print(table(heads, rows))


def sessions(database, options):
    """Logs in as many people on each node as file descriptors allow, from one load generator per
    node; each generator spreads its people over all nodes.
    """
    count = int(options.nodes.split(",")[0])
    people = People(options.each * count)
    with Nodes(database, count, people, archive=True, level=options.level) as nodes:
        folder = Path(nodes.folder.name)
        hosts = [f"127.0.0.1:{node.port}" for node in nodes.nodes]
        memory = lambda: {node.number: resident(node.process.pid) for node in nodes.nodes if node.process.poll() is None}
        empty = memory()
        generators = []
        for at in range(count):
            # The last people log in while the first are still online; then the node is killed.
            # Logins may take half as long again as they should.
            seconds = options.seconds + (count - 1 - at) * (1.5 * options.each / options.arrivals + 5)
            words = [BINARY, "bench", "cluster", "--hosts", ",".join(hosts), "--users", options.each, "--first", at * options.each]
            words += ["--arrival-rate", options.arrivals, "--rate", options.rate / count, "--seconds", int(seconds), "--patience", 60, "--settle", 60]
            words += ["--password", PASSWORD, "--out", folder / f"{at}.json"]
            said = folder / f"generator-{at}"
            log = said.open("w")
            generators.append(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log))
            until = time.time() + 120 + options.each / options.arrivals * 3
            while "people are there" not in said.read_text():
                assert generators[-1].poll() is None and time.time() < until, said.read_text()
                time.sleep(0.5)
            print(f"{(at + 1) * options.each} people are there", flush=True)
        full = memory()
        each = [(full[number] - empty[number]) / options.each for number in full]
        print(f"resident memory of a session: {middle([one / 1024 for one in each], 1)} KiB; of all nodes {sum(full.values()) / 2**20:.0f} MiB", flush=True)
        time.sleep(10)
        print("a node is killed", flush=True)
        nodes.nodes[0].end(signal.SIGKILL)
        for at, generator in enumerate(generators):
            generator.wait()
            print(f"-- load generator {at + 1}\n" + (folder / f"generator-{at}").read_text(), flush=True)
        if options.keep:
            for node in nodes.nodes:
                shutil.copy(node.folder / "log", Path(options.keep, f"n{node.number}.log"))
        results = [json.loads((folder / f"{at}.json").read_text()) for at in range(count)]
        print(json.dumps({key: [result[key] for result in results] for key in ("cut", "resumed", "begun_again", "away_ms", "missing_people")}))


def resident(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cost", "sessions"])
    parser.add_argument("--nodes")
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--each", type=int, default=19000, help="people on each node")
    parser.add_argument("--arrivals", type=float, default=400, help="logins a second")
    parser.add_argument("--level", default="info", help="what the nodes log, as in [log] of the configuration")
    parser.add_argument("--keep", help="a folder for the logs of the nodes; with sessions")
    options = parser.parse_args()
    cost_ = options.part == "cost"
    options.nodes = options.nodes or ("1,2,4,10" if cost_ else "10")
    options.rate = options.rate or (3000 if cost_ else 50)
    options.seconds = options.seconds or (10 if cost_ else 90)
    with Postgres() as database:
        (cost if cost_ else sessions)(database, options)


if __name__ == "__main__":
    main()
