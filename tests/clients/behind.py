#!/usr/bin/env python3
"""Runs the scenarios of real clients against three nodes behind a balancer. Each must end as it
does with one server.

    ROOKERY=target/debug/rookery python3 tests/clients/behind.py [SCENARIO or TOPIC …]

Starts PostgreSQL and Redis (or Valkey) from Debian's packages. Takes some seconds per scenario, so
`.ci/long` runs it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "load"))

from cluster import Redis  # noqa: E402
from databases import Postgres  # noqa: E402

TOPICS = [
    "login", "contacts", "privacy", "messages", "mobile", "archive", "services", "multicast", "rooms", "pubsub", "web", "bosh", "aio", "others",
]  # fmt: skip
# They are left out for the reasons in the operator's chapter on several nodes.
BY_NODE = {
    "rooms.a_room_is_logged_for_people": "logs of rooms are files of the node that is the room's home",
    "bosh.the_end_of_the_server_is_told": "the balancer ends before its nodes",
    "web.health_and_metrics_are_there": "metrics are those of a node",
}
# The largest number of servers that one scenario starts.
MOST = 6
OUT_OF_TIME = os.EX_TEMPFAIL


def run(scenario, database, redis):
    urls = [database.url(database.database()) for _ in range(MOST)]
    behind = {"databases": urls, "redis": f"redis://127.0.0.1:{redis.port}"}
    environment = dict(os.environ, ROOKERY=os.path.abspath(os.environ["ROOKERY"]), ROOKERY_BEHIND=json.dumps(behind))
    for _ in range(2):
        began = time.time()
        ended = subprocess.run([sys.executable, HERE / "run.py", scenario], env=environment, capture_output=True, text=True)
        print(f"{time.time() - began:6.1f} s  {ended.returncode:3}  {scenario}", flush=True)
        if ended.returncode != OUT_OF_TIME:
            break
        behind["databases"] = [database.url(database.database()) for _ in range(MOST)]
        environment["ROOKERY_BEHIND"] = json.dumps(behind)
    return ended


def main(wanted):
    listed = subprocess.run([sys.executable, HERE / "run.py", "--list"], capture_output=True, text=True, check=True)
    scenarios = listed.stdout.split()
    if wanted:
        chosen = [name for name in scenarios if name in wanted or name.partition(".")[0] in wanted]
    else:
        chosen = [name for name in scenarios if name.partition(".")[0] in TOPICS and name not in BY_NODE]
    failed, redis = [], Redis()
    try:
        with Postgres() as database:
            for scenario in chosen:
                ended = run(scenario, database, redis)
                if ended.returncode:
                    failed.append(scenario)
                    print(ended.stdout[-3000:], ended.stderr[-3000:], sep="\n")
    finally:
        redis.remove()
    print(f"{len(chosen) - len(failed)} of {len(chosen)} scenarios end as with one server")
    for scenario in failed:
        print(f"  not {scenario}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
