#!/usr/bin/env python3
"""Measures the messages that a cluster loses while parts of it fail: nodes are killed, paused or
restarted, Redis loses its data, PostgreSQL pauses.

    ROOKERY=target/release/rookery python3 tests/load/cluster.py kill [--nodes 5] \\
        [--seconds 600] [--users 200] [--rate 300]
    ROOKERY=target/release/rookery python3 tests/load/cluster.py all --seconds 60
    ROOKERY=target/release/rookery python3 tests/load/cluster.py kill --server ejabberd --nodes 3

Starts PostgreSQL and Redis (or Valkey) from Debian's packages, and `--nodes` nodes, each with its
own folder and port. `rookery bench cluster` lets people write to each other, and accounts for every
message. Each scenario has its own cluster. A fault occurs every 20 seconds.

    none       nothing happens
    kill       a node is killed and restarted after 10 s; nodes take turns
    stop       a node is paused for 15 s (SIGSTOP); its supervisor restarts it if it exits
    restart    a node is stopped with SIGTERM and restarted at once; nodes take turns
    upgrade    the same, but nodes first run the binary in ROOKERY_BEFORE, and then that in ROOKERY
    redis      Redis is killed with all its data, and restarted after 5 s
    database   PostgreSQL is paused for 8 s (SIGSTOP)
    cut        all connections to PostgreSQL break, once a second for 5 s
    slow       as kill, while PostgreSQL is paused for 2 of every 2.05 s until the middle of the run
    room       everybody is in one room; its home node is killed, and restarted after 10 s
               (for a room of 500: --users 500 --rate 10)

Exit code 0: all was well; 75: messages only came twice or out of order, as they may on a machine
that is too busy to renew leases; 1: messages were lost, or the run itself failed.

ejabberd runs without Redis, as its clusters do by default: its nodes copy their sessions to each
other. Its rooms have no home to look for.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from databases import Postgres, free_port
from ejabberd_cluster import EjabberdCluster
from loads import PASSWORD, table

BINARY = os.path.abspath(os.environ.get("ROOKERY", "target/release/rookery"))
# Another build may generate the load, for example while an older server is measured.
BENCH = os.path.abspath(os.environ.get("ROOKERY_BENCH", BINARY))
# The version from which `upgrade` leads to the other one.
BEFORE = os.path.abspath(os.environ.get("ROOKERY_BEFORE", BINARY))
CONFIG = """
domains = ["localhost"]
shards = 1
[listen]
c2s = ["127.0.0.1:{port}"]
c2s_tls = []
s2s = []
s2s_tls = []
web = []
web_tls = []
bytestreams = []
components = []
[limits]
connections_per_address = 0
[login]
plaintext_loopback = true
plain_without_tls = true
scram_iterations = 4096
[log]
level = "info"
[store]
url = "{url}"
connections = {connections}
[cluster]
node = "n{number}"
redis = "redis://127.0.0.1:{redis}"
lease_seconds = {lease}
"""
ROOM = "hall@conference.localhost"
# With this exit code, systemd would restart the process.
SUPERVISED = 75


class Redis:
    def __init__(self):
        self.port, self.folder = free_port(), tempfile.mkdtemp(prefix="rookery-redis-")
        self.program = shutil.which("valkey-server") or shutil.which("redis-server")
        assert self.program, "neither valkey-server nor redis-server is installed"
        self.start()

    def start(self):
        words = [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    """A process of the cluster, and its supervisor."""

    def __init__(self, number, url, redis, folder, binary=BINARY, lease=2, connections=8):
        self.number, self.port, self.folder = number, free_port(), Path(folder, f"n{number}")
        self.binary = binary
        self.folder.mkdir(mode=0o700)
        self.process, self.ended = None, False
        text = CONFIG.format(port=self.port, url=url, redis=redis.port, number=number, lease=lease, connections=connections)
        (self.folder / "rookery.toml").write_text(text)

    def command(self, *arguments):
        words = [self.binary, "--data-dir", str(self.folder), *map(str, arguments)]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([self.binary, "--data-dir", str(self.folder), "serve"], stdout=log, stderr=log)

    def watch(self):
        """Restarts the node when it exits because other nodes have taken over from it."""
        if not self.ended and self.process and self.process.poll() == SUPERVISED:
            self.start()

    def wait(self):
        end = time.time() + 60
        while time.time() < end:
            if b"is running" in (self.folder / "log").read_bytes() and self.process.poll() is None:
                return
            self.watch()
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text()[-2000:])

    def end(self, how=signal.SIGTERM):
        self.ended = True
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)


def family(pid):
    """Returns a process and its children: PostgreSQL has a process for each connection."""
    found = [pid]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")")[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except FileNotFoundError:
            pass
    return found


def is_backend(pid):
    """Returns whether this process of PostgreSQL serves a connection."""
    try:
        return b"127.0.0.1(" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


class Cluster:
    SCENARIOS = ["none", "kill", "stop", "restart", "upgrade", "redis", "database", "cut", "slow", "room"]

    def __init__(self, database, options, scenario):
        self.folder = tempfile.mkdtemp(prefix="rookery-cluster-")
        self.database, self.redis = database, Redis()
        url = database.url(database.database())
        binary = BEFORE if scenario == "upgrade" else BINARY
        # PostgreSQL allows a hundred connections by default.
        terms = options.lease, min(8, 50 // options.nodes)
        self.nodes = [Node(number, url, self.redis, self.folder, binary, *terms) for number in range(1, options.nodes + 1)]
        try:
            self.begin(options.users)
        except BaseException:
            self.remove()
            raise

    def begin(self, users):
        file = Path(self.folder, "accounts.csv")
        words = [BINARY, "bench", "register", "--domain", "localhost", "--users", str(users), "--password", PASSWORD, "--csv", str(file)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        first = self.nodes[0]
        first.start()
        first.wait()
        # Version 0.2.0 accepts passwords of any length, and doesn't know the option.
        knows_short = "--allow-short" in first.command("user", "import", "--help")
        first.command("user", "import", file, *(["--allow-short"] if knows_short else []))
        for node in self.nodes[1:]:
            node.start()
        for node in self.nodes:
            node.wait()
        time.sleep(3)

    def start(self, node):
        node.ended = False
        node.start()

    def remove(self):
        for node in self.nodes:
            node.end(signal.SIGKILL)
        self.redis.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def first_of(cluster):
    """Returns the first node that lives."""
    return next(node for node in cluster.nodes if node.process.poll() is None)


def harm(cluster, scenario, number):
    node = cluster.nodes[number % len(cluster.nodes)]
    if scenario == "room":
        home = first_of(cluster).command("node", "home", ROOM).split()[-1]
        node = next(node for node in cluster.nodes if f"n{node.number}" == home)
    if scenario in ("kill", "slow", "room"):
        node.end(signal.SIGKILL)
        time.sleep(10)
        cluster.start(node)
    elif scenario == "stop":
        node.process.send_signal(signal.SIGSTOP)
        time.sleep(15)
        node.process.send_signal(signal.SIGCONT)
    elif scenario == "restart":
        node.end()
        cluster.start(node)
    elif scenario == "upgrade" and node.binary != BINARY:
        node.end()
        node.binary = BINARY
        cluster.start(node)
        print(first_of(cluster).command("node", "list"), flush=True)
    elif scenario == "redis":
        cluster.redis.kill()
        time.sleep(5)
        cluster.redis.start()
    elif scenario == "cut":
        for _ in range(5):
            for pid in family(cluster.database.process.pid)[1:]:
                if is_backend(pid):
                    os.kill(pid, signal.SIGTERM)
            time.sleep(1)
    elif scenario == "database":
        pause(cluster.database, 8)


def pause(database, seconds):
    """Pauses all processes of PostgreSQL."""
    stopped = family(database.process.pid)
    for how in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            # A backend may have ended meanwhile.
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        time.sleep(seconds if how == signal.SIGSTOP else 0)


def run(database, server, scenario, options):
    cluster = SERVERS[server](database, options, scenario)
    is_over = threading.Event()

    def supervise():
        while not is_over.wait(0.5):
            for node in cluster.nodes:
                node.watch()

    def do_harm():
        number, begun = 0, time.monotonic()
        while not is_over.wait(max(0, begun + (number + 1) * options.every - time.monotonic())):
            if time.monotonic() - begun > options.seconds:
                return
            harm(cluster, scenario, number)
            number += 1
            print(f"  {time.monotonic() - begun:5.0f} s: harm {number} done", flush=True)

    def slow_down():
        end = time.monotonic() + options.seconds / 2
        # Everybody is there by then.
        is_over.wait(5)
        while time.monotonic() < end and not is_over.wait(0.05):
            pause(database, 2)

    harms = {"none": [], "slow": [do_harm, slow_down]}.get(scenario, [do_harm])
    threads = [threading.Thread(target=target) for target in (supervise, *harms)]
    try:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        print(f"== {server}, {scenario}", flush=True)
        for thread in threads:
            thread.start()
        words = [BENCH, "bench", "cluster", "--hosts", hosts, "--password", PASSWORD, "--users", options.users, "--rate", options.rate, "--other-rate", options.other_rate]
        out = Path(cluster.folder, "result.json")
        words += ["--seconds", options.seconds, "--out", out, *(["--room", ROOM] if scenario == "room" else [])]
        subprocess.run([str(word) for word in words])
        if out.exists() and options.out:
            shutil.copy(out, f"{options.out}-{server}-{scenario}.json")
        return json.loads(out.read_text()) if out.exists() else None
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        if options.logs:
            for node in cluster.nodes:
                print((node.folder / "log").read_text()[-options.logs :])
        cluster.remove()


SERVERS = {"rookery": Cluster, "ejabberd": EjabberdCluster}


def chosen(scenario):
    """Returns the scenarios to run: `upgrade` needs another binary."""
    can_upgrade = "ROOKERY_BEFORE" in os.environ
    if scenario == "all":
        return [one for one in Cluster.SCENARIOS if one != "upgrade" or can_upgrade]
    if scenario == "upgrade" and not can_upgrade:
        sys.exit("upgrade: ROOKERY_BEFORE must name the binary from which nodes are upgraded")
    return [scenario]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=[*Cluster.SCENARIOS, "all"])
    parser.add_argument("--server", default="rookery", help="rookery, ejabberd, or both separated by a comma")
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--other-rate", type=float, default=0, help="presence, published items and reads of archives, a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--lease", type=int, default=2, help="seconds after which a node that says nothing is silent")
    parser.add_argument("--most-twice", type=int, default=0, help="messages that may come twice before that counts as a fault")
    parser.add_argument("--out", help="write results as JSON to OUT-SERVER-SCENARIO.json")
    parser.add_argument("--logs", type=int, default=0, help="show this many of the last bytes of each log")
    options = parser.parse_args()
    rows, failed, has_lost = [], [], False
    with Postgres() as database:
        for scenario in chosen(options.scenario):
            for server in options.server.split(","):
                if server == "ejabberd" and scenario in ("redis", "room", "upgrade"):
                    continue
                found = run(database, server, scenario, options)
                room = (found or {}).get("room") or {"left": 0, "wrong_history": 0}
                wrong = room["left"] + room["wrong_history"]
                is_wrong = found is None or wrong or found["messages"]["lost"] or found["messages"]["astray"]
                if is_wrong or found["messages"]["doubled"] > options.most_twice or found["messages"]["reordered"]:
                    failed.append(f"{server}, {scenario}")
                has_lost = has_lost or bool(is_wrong)
                if found:
                    rows.append([f"{server}, {scenario}", *columns(found)])
    print("\n" + table(HEADS, rows))
    if failed:
        print(f"failed: {'; '.join(failed)}", file=sys.stderr)
        sys.exit(1 if has_lost else OVERLOADED)


# The exit code if messages only came twice or out of order, as they do on a machine that is too
# busy to renew leases (EX_TEMPFAIL of sysexits.h).
OVERLOADED = 75


HEADS = ["server, harm", "messages", "acknowledged and lost", "twice", "again, same id", "out of order", "until they arrived: half, 99 %, all, ms"]
HEADS += ["connections lost", "resumed", "begun again", "until people were back: half, 99 %, all, s"]


def columns(found):
    booked = found["messages"]
    counts = [booked[count] for count in ("said", "lost", "doubled", "again", "reordered")]
    delay, away = (", ".join(f"{value / part:.{digits}f}" for value in found[key]) for key, part, digits in (("delay_ms", 1, 0), ("away_ms", 1000, 1)))
    return [*counts, delay, found["cut"], found["resumed"], found["begun_again"], away]


if __name__ == "__main__":
    main()
