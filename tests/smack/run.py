#!/usr/bin/env python3
"""Runs the public Smack integration tests against a Rookery that it starts.

    tests/smack/run.py                   builds the server, fetches the tests with Maven, runs all
    tests/smack/run.py --binary PATH     takes this server instead of building one
    tests/smack/run.py --only A,B        runs only test classes whose names contain A or B
    tests/smack/run.py --nodes 3         starts three nodes of a cluster behind a balancer
    tests/smack/run.py --example         runs only the bot in `examples/Bot.java`, as all others do first

Needs a JDK (17 or later) and Maven, which fetches the tests from Maven Central into `target/smack`.
The server listens on port 5222 of its own loopback address, with a temporary folder. Nodes share a
PostgreSQL and a Redis of Debian's packages, and each connection goes to the next one. A test that
fails is run again, since some race with the server's notifications: only a second failure counts.
Exit code 0: all tests that can run passed, except those that `impossible.toml` lists with a reason.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(ROOT / "tests" / folder) for folder in ("load", "clients")]
JARS = ROOT / "target" / "smack" / "jars"
# A loopback address, so that neither another server on port 5222 nor another run of this script is
# in the way.
ADDRESS = f"127.77.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
MAIN = "org.igniterealtime.smack.inttest.SmackIntegrationTestFramework"
PASSWORD = "a password of twenty"
# Seconds that a run of all tests may take before it is ended.
PATIENCE = 1800

# The tests share files through the domain, whose name is this address; the example shares none.
WEB_TLS = "127.0.0.1:5443"

CONFIG = f"""
shards = 2
[listen]
c2s = ["C2S"]
c2s_tls = []
web = []
web_tls = [WEB_TLS]
bytestreams = ["{ADDRESS}:0"]
[login]
scram_iterations = 4096
[modules.register]
allow_creation = true
min_password = 1
[modules.bytestreams]
address = "{ADDRESS}"
[modules.rooms]
logs = "logs"
"""


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=Path, help="the server to test")
    arguments.add_argument("--only", default="", help="parts of names of test classes, with commas between")
    arguments.add_argument("--log", type=Path, default=ROOT / "target" / "smack" / "smack.log", help="where the tests' own output goes")
    arguments.add_argument("--nodes", type=int, default=1, help="the number of nodes")
    arguments.add_argument("--example", action="store_true", help="try the example in Java, and no test of Smack's")
    chosen = arguments.parse_args()
    fetch()
    binary = chosen.binary or build()
    impossible = tomllib.loads((HERE / "impossible.toml").read_text())
    only = classes(chosen.only)
    web_tls = "" if chosen.example else WEB_TLS
    with Server(binary, web_tls=web_tls) if chosen.nodes == 1 else Nodes(binary, chosen.nodes) as server:
        try_example(server)
        if chosen.example:
            return 0
        first = run(server, only, chosen.log)
        again = sorted({name for name in first.failed if name not in impossible})
        second = run(server, again, chosen.log.with_suffix(".again.log")) if again else Outcome()
    failed = [name for name in again if name in second.failed or name not in second.passed]
    report(first, second, again, failed, impossible)
    return 1 if failed or not first.passed else 0


def fetch():
    if not any(JARS.glob("smack-integration-test-*.jar")):
        print("fetching the tests with Maven …", flush=True)
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}", "-DincludeScope=runtime"]
        subprocess.run(copy, cwd=HERE, check=True)


def build():
    print("building the server …", flush=True)
    subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "rookery"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "rookery"


def try_example(server):
    """Asks the Java bot for the time, in a chat and in a room."""
    room = "garden@conference.localhost"
    for name in ("alice", "clock"):
        add = [server.binary, "--data-dir", "rookery-data", "user", "add", f"{name}@localhost", "--password-stdin", "--allow-short"]
        subprocess.run([*add, "--config", "rookery.toml"], cwd=server.folder, input=PASSWORD, text=True, check=True, capture_output=True)
    trust = [f"-Djavax.net.ssl.trustStore={server.trust}", "-Djavax.net.ssl.trustStorePassword=rookery"]
    java = ["java", "-cp", f"{JARS}/*", *trust]
    environment = os.environ | {"PASSWORD": PASSWORD, "HOST": ADDRESS}
    bot = subprocess.Popen(
        [*java, ROOT / "examples" / "Bot.java", "clock@localhost", room], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        said = bot.stdout.readline()
        if "is there" not in said:
            raise SystemExit(f"the bot in Java is not there: {said}")
        subprocess.run([*java, HERE / "AskBot.java", "alice@localhost", "clock@localhost", room], env=environment, check=True, timeout=120)
    finally:
        bot.terminate()
        bot.wait()
    print("the bot in Java tells the time", flush=True)


def classes(only):
    """The test classes whose names contain one of these parts; none if no part is given."""
    parts = [part for part in only.split(",") if part]
    if not parts:
        return []
    jar = next(JARS.glob("smack-integration-test-*.jar"))
    listed = subprocess.run(["unzip", "-Z1", jar], check=True, capture_output=True, text=True).stdout
    names = {Path(line).stem for line in listed.splitlines() if line.endswith("Test.class") and "$" not in line}
    return sorted(name for name in names if any(part in name for part in parts))


class Server:
    """A running server in a temporary folder, and a trust store with its certificate."""

    def __init__(self, binary, c2s=f"{ADDRESS}:5222", web_tls=WEB_TLS, more=""):
        self.binary = binary.resolve()
        self.config = CONFIG.replace("C2S", c2s).replace("WEB_TLS", f'"{web_tls}"' if web_tls else "") + more
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-smack-"))

    def __enter__(self):
        (self.folder / "rookery.toml").write_text(self.config)
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            command = [self.binary, "--config", "rookery.toml"]
            self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while "is running" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server does not start:\n{self.log.read_text()}")
            time.sleep(0.05)
        certificate = self.folder / "rookery-data/certs/self-signed.pem"
        self.trust = self.folder / "trust.p12"
        imported = ["keytool", "-importcert", "-noprompt", "-alias", "rookery", "-file", certificate]
        imported += ["-keystore", self.trust, "-storetype", "PKCS12", "-storepass", "rookery"]
        subprocess.run(imported, check=True, capture_output=True)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if "panicked" in self.log.read_text():
            print(self.log.read_text())
            raise SystemExit("the server panicked")
        shutil.rmtree(self.folder)


class Nodes:
    """Running nodes of a cluster behind a balancer. Commands run on the first node, which serves the
    files that all of them share.
    """

    def __init__(self, binary, number):
        self.binary, self.number = binary, number

    def __enter__(self):
        # The example and the tests of one server need none of these.
        from cluster import Redis
        from databases import Postgres, free_port
        from several import Balancer

        with ExitStack() as stack:
            database, redis = stack.enter_context(Postgres()), Redis()
            stack.callback(redis.remove)
            store = f'[store]\nurl = "{database.url(database.database())}"\n'
            ports = [free_port() for _ in range(self.number)]
            for number, port in enumerate(ports, 1):
                more = f'{store}[cluster]\nnode = "n{number}"\nredis = "redis://127.0.0.1:{redis.port}"\n'
                web_tls = WEB_TLS if number == 1 else WEB_TLS.replace("127.0.0.1", f"127.0.0.{number}")
                server = Server(self.binary, f"127.0.0.1:{port}", web_tls, more)
                if number == 1:
                    self.first = server
                else:
                    data = server.folder / "rookery-data"
                    data.mkdir(0o700)
                    shutil.copytree(self.first.folder / "rookery-data/certs", data / "certs")
                    (data / "uploads").symlink_to(self.first.folder / "rookery-data/uploads")
                stack.enter_context(server)
            (self.first.folder / "rookery-data/uploads").mkdir(0o700, exist_ok=True)
            stack.callback(Balancer(ports).listen(ADDRESS, 5222).close)
            self.binary, self.folder, self.trust = self.first.binary, self.first.folder, self.first.trust
            here = ["--data-dir", self.folder / "rookery-data", "--config", self.folder / "rookery.toml"]
            while ran(self.binary, *here, "node", "list").count(" up ") < self.number:
                time.sleep(0.2)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()


def ran(*command):
    """Returns the output of a command."""
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


class Outcome:
    """The result of a run of the tests: names of tests as `Class.method`, and reasons by class or
    name.
    """

    def __init__(self):
        self.passed, self.failed, self.skipped = set(), {}, {}


def run(server, only, log):
    properties = {
        "javax.net.ssl.trustStore": server.trust,
        "javax.net.ssl.trustStorePassword": "rookery",
        "sinttest.service": "localhost",
        "sinttest.host": ADDRESS,
        "sinttest.replyTimeout": "10000",
        "sinttest.dnsResolver": "javax",
        # Smack's modular connection drops the end of a stream that arrives together with the end of
        # TLS, with any server.
        "sinttest.enabledConnections": "tcp",
    }
    if only:
        properties["sinttest.enabledTests"] = ",".join(only)
    command = ["java", "-cp", f"{JARS}/*", *(f"-D{key}={value}" for key, value in properties.items()), MAIN]
    print(f"running {len(only) or 'all'} tests; their output goes to {log}", flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            print("the tests took too long and were ended")
    return read(log.read_text(errors="replace"))


def read(text):
    """The results of the tests. A test of several kinds of connection counts once; it fails if one
    of them does.
    """
    outcome = Outcome()
    for name, end in re.findall(r"^(?:INFO|SEVERE): (\w+\.\w+) \([^)]*\) (Success|Failed)$", text, re.MULTILINE):
        if end == "Success":
            outcome.passed.add(name)
        else:
            outcome.failed.setdefault(name, "")
    for name, reason in re.findall(r"^SEVERE: (\w+\.\w+) \([^)]*\) failed: (.*)$", text, re.MULTILINE):
        outcome.failed[name] = reason
    for name, reason in re.findall(r"^INFO: (\w+(?:\.\w+)?)(?: \([^)]*\))? (?:is )?not possible: (.*)$", text, re.MULTILINE | re.IGNORECASE):
        outcome.skipped[name] = reason
    outcome.passed -= outcome.failed.keys()
    return outcome


def report(first, second, again, failed, impossible):
    known = sorted(name for name in first.failed if name in impossible)
    print(f"{len(first.passed) + len(again) - len(failed)} passed, {len(failed)} failed twice, {len(known)} are known to be impossible")
    for name in sorted(set(again) - set(failed)):
        print(f"  passed the second time: {name}: {first.failed[name]}")
    for name in known:
        print(f"  impossible: {name}: {impossible[name]}")
    for name in sorted(first.skipped):
        print(f"  not possible, say the tests: {name}: {first.skipped[name]}")
    for name in failed:
        print(f"  FAILED: {name}: {second.failed.get(name, 'it did not run again')}")


if __name__ == "__main__":
    sys.exit(main())
