"""Checks the dashboard and the alert rules against a Prometheus that scrapes a Rookery under load,
and finds the panels that stay empty.

    ROOKERY=target/release/rookery python3 tests/load/dashboard.py

Needs Python 3.11 and Debian's package `prometheus` (no server of it needs to run). Starts both on
loopback, with chat, a room and a multicast, waits for some scrapes, and runs the query of each
panel of doc/grafana/rookery.json and of each rule of doc/prometheus/alerts.yml; `promtool` checks
the rules and the page of metrics. Exits with 1 if a query fails, or returns nothing where it should
return something.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))

from ports import free_port
from server import TABLES, Wire, started

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.path.abspath(os.environ.get("ROOKERY", "target/release/rookery"))
DASHBOARD, RULES = ROOT / "doc/grafana/rookery.json", ROOT / "doc/prometheus/alerts.yml"
# The parts that this server doesn't have: nodes, sources of logins and devices. Queries about them
# return nothing; their names are those of the reference.
ABSENT = ("rookery_cluster_", "rookery_login_source_", "rookery_dpm_")
REFERENCE = (ROOT / "doc/book/reference/metrics.md").read_text()
USERS = 60
# The loads run one after another, with the same people; the last one continues while Prometheus is
# queried.
LOADS = [
    ["muc-big", "--users", "20", "--occupants", "20", "--seconds", "2", "--tls", "starttls"],
    ["multicast", "--from", "10", "--to", "20", "--step", "10", "--part-seconds", "2", "--tls", "starttls"],
    ["multicast", "--from", "10", "--to", "20", "--step", "10", "--part-seconds", "2"],
    ["chat", "--pairs", "10", "--seconds", "600"],
]


def queries():
    def panels(all):
        for panel in all:
            for target in panel.get("targets", []):
                yield panel["title"], target["expr"]
            yield from panels(panel.get("panels", []))

    for title, expression in panels(json.loads(DASHBOARD.read_text())["panels"]):
        yield title, expression.replace("$instance", ".*").replace("$__rate_interval", "60s").replace("[1h]", "[60s]")


def metrics_in(query):
    return set(re.findall(r"\b(?:rookery|process)_\w+", query))


def is_absent(metric):
    name = re.sub("_(sum|count|bucket)$", "", metric)
    return metric.startswith(ABSENT) and name in REFERENCE


def ask(port, kind, **parameters):
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{kind}?{query}") as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        return {"error": error.read().decode()}
    except urllib.error.URLError:
        # It is still starting.
        return {}


async def run(server, *arguments):
    words = [BINARY, *map(str, arguments)]
    return await asyncio.create_subprocess_exec(*words, cwd=server.folder, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)


async def bustle(server):
    """Lets people log in, chat and fail to log in while Prometheus scrapes. Returns the load that
    is still running.
    """
    for words in LOADS:
        load = await run(server, "bench", "run", *words, "--host", f"127.0.0.1:{server.port}", "--domain", "localhost")
        if words is not LOADS[-1]:
            _, said = await load.communicate()
            assert load.returncode == 0, said.decode()
            # Meanwhile a scrape sees new counters at their first value, so that they rise later.
            await asyncio.sleep(4)
    try:
        await Wire(server.port).open("nobody", "")
    except AssertionError:
        pass
    await asyncio.sleep(10)
    return load


async def main():
    subprocess.run(["promtool", "check", "rules", RULES], check=True)
    async with started() as server:
        # The stages of a multicast are measured on demand.
        server.configure(top="profile = true", tables=TABLES)
        await server.reload()
        file = server.folder / "accounts.csv"
        await (await run(server, "bench", "register", "--domain", "localhost", "--users", USERS, "--csv", file)).wait()
        server.command("user", "import", str(file), "--allow-short")
        page = urllib.request.urlopen(f"http://127.0.0.1:{server.web_port}/metrics").read()
        linted = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
        print(f"promtool check metrics: {linted.returncode} {linted.stdout.decode()}{linted.stderr.decode()}")
        assert linted.returncode == 0
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            Path(folder, "prometheus.yml").write_text(
                f"global:\n  scrape_interval: 2s\n  evaluation_interval: 2s\nrule_files: ['{RULES}']\nscrape_configs:\n  - job_name: rookery\n"
                f"    static_configs: [{{ targets: ['127.0.0.1:{server.web_port}'] }}]\n"
            )
            prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            try:
                wrong = await look(server, port)
            finally:
                prometheus.terminate()
                prometheus.wait()
    sys.exit(1 if wrong else 0)


async def look(server, port):
    # If no scrape sees a counter at its start, no rise is seen later: so wait for the first scrape.
    while not ask(port, "query", query="rookery_tls_handshake_seconds_count == 0").get("result"):
        await asyncio.sleep(0.2)
    load = await bustle(server)
    wrong = []
    for title, expression in queries():
        found = ask(port, "query", query=expression)
        values = [row["value"][1] for row in found.get("result", [])]
        is_fine = values and not all(value == "NaN" for value in values)
        is_fine = "error" not in found and (is_fine or all(map(is_absent, metrics_in(expression))))
        print(f"{'ok   ' if is_fine else 'EMPTY'} {title:<34} {len(values):>3}  {values[0] if values else found.get('error', '-')}")
        wrong += [] if is_fine else [title]
    names = set(ask(port, "label/__name__/values"))
    for group in ask(port, "rules")["groups"]:
        for rule in group["rules"]:
            missing = {metric for metric in metrics_in(rule["query"]) - names if not is_absent(metric)}
            is_fine = rule["health"] == "ok" and not missing
            print(f"{'ok   ' if is_fine else 'WRONG'} {rule['name']:<34} {rule['health']}, {rule['state']} {' '.join(missing)} {rule.get('lastError', '')}")
            wrong += [] if is_fine else [rule["name"]]
    load.kill()
    await load.wait()
    return wrong


if __name__ == "__main__":
    asyncio.run(main())
