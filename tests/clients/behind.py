#!/usr/bin/env python3
"""Runs the scenarios of real clients against three nodes behind a balancer. Each must end as it
does with one server.

    ROOKERY=target/debug/rookery python3 tests/clients/behind.py \\
        [--beside] [--jobs N] [SCENARIO or TOPIC …]

Starts PostgreSQL and Redis (or Valkey) from Debian's packages. Takes some seconds per scenario, so
`.ci/long` runs it. `cargo test --test clients behind::` runs some of them. With `--beside`, each
scenario runs against one server, too, and a table shows the results of both.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "load"))

from cluster import Redis  # noqa: E402
from databases import Postgres  # noqa: E402
from loads import table  # noqa: E402

TOPICS = [
    "login", "contacts", "privacy", "messages", "mobile", "archive", "services", "multicast", "rooms", "pubsub", "web", "bosh", "aio", "others",
]  # fmt: skip
# They are left out for the reasons in the operator's chapter on several nodes.
BY_NODE = {
    "rooms.a_room_is_logged_for_people": "logs of rooms are files of the node that is the room's home",
    "bosh.the_end_of_the_server_is_told": "the balancer ends before its nodes",
    "web.health_and_metrics_are_told": "metrics are those of a node",
}
# The largest number of servers that one scenario starts.
MOST = 6
OUT_OF_TIME = os.EX_TEMPFAIL


class Databases:
    """The databases of one try of a scenario, as a context manager that removes them."""

    lock = threading.Lock()

    def __init__(self, postgres):
        self.postgres = postgres

    def __enter__(self):
        with Databases.lock:
            self.names = [self.postgres.database() for _ in range(MOST)]
        return [self.postgres.url(name) for name in self.names]

    def __exit__(self, *_):
        self.postgres.sql("".join(f"DROP DATABASE {name} WITH (FORCE);\n" for name in self.names))


def attempt(scenario, environment):
    """Runs a scenario, once more if it runs out of time. `environment` is a function, so that each
    try has its own. Returns the exit code, the output and the seconds of the last try.
    """
    for _ in range(2):
        began = time.time()
        with environment() as variables:
            words = [sys.executable, HERE / "run.py", scenario]
            ended = subprocess.run(words, env=dict(os.environ, **variables), capture_output=True, text=True)
        if ended.returncode != OUT_OF_TIME:
            break
    return ended.returncode, ended.stdout + ended.stderr, time.time() - began


class Three(Databases):
    """The environment of a scenario with three nodes."""

    def __init__(self, postgres, redis):
        super().__init__(postgres)
        self.redis = redis

    def __enter__(self):
        behind = {"databases": super().__enter__(), "redis": f"redis://127.0.0.1:{self.redis.port}"}
        return {"ROOKERY_BEHIND": json.dumps(behind)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", metavar="SCENARIO or TOPIC")
    parser.add_argument("--beside", action="store_true", help="run each against one server, too")
    parser.add_argument("--jobs", type=int, default=1, help="the number of scenarios that run at the same time")
    options = parser.parse_args()
    os.environ["ROOKERY"] = os.path.abspath(os.environ["ROOKERY"])
    listed = subprocess.run([sys.executable, HERE / "run.py", "--list"], capture_output=True, text=True, check=True)
    scenarios, wanted = listed.stdout.split(), options.wanted or TOPICS
    assert set(BY_NODE) <= set(scenarios), "some have other names now"
    chosen = [name for name in scenarios if name in wanted or (name.partition(".")[0] in wanted and name not in BY_NODE)]
    redis = Redis()
    try:
        with Postgres() as postgres, ThreadPoolExecutor(options.jobs) as pool:
            three = list(pool.map(lambda scenario: told(scenario, 3, lambda: Three(postgres, redis)), chosen))
            alone = chosen if options.beside else []
            one = dict(zip(alone, pool.map(lambda scenario: told(scenario, 1, lambda: nullcontext({})), alone)))
    finally:
        redis.remove()
    failed = [name for name, is_well in zip(chosen, three) if not is_well]
    if one:
        show(one, dict(zip(chosen, three)))
        differs = [name for name in failed if one.get(name, True)] + [name for name in chosen if not one.get(name, True) and name not in failed]
    else:
        differs = failed
        print(f"{len(chosen) - len(failed)} of {len(chosen)} scenarios end well with three nodes")
    for scenario in differs:
        print(f"  not {scenario}")
    return bool(differs)


def told(scenario, nodes, environment):
    """Runs a scenario, prints the result, and returns whether it is as it should be."""
    code, said, seconds = attempt(scenario, environment)
    print(f"{seconds:6.1f} s  {code:3}  {nodes}  {scenario}" + (f"\n{said[-6000:]}" if code else ""), flush=True)
    return code == 0


def show(one, three):
    """Prints the numbers of scenarios that end well, per topic."""
    topic = lambda name: name.partition(".")[0]
    all_ = Counter(map(topic, one))
    well = lambda found: Counter(topic(name) for name in one if found[name])
    rows = [[name, all_[name], well(one)[name], well(three)[name]] for name in all_]
    print("\n" + table(["topic", "scenarios", "end well with one server", "with three nodes"], [*rows, ["all", *map(sum, list(zip(*rows))[1:])]]))


if __name__ == "__main__":
    sys.exit(main())
