#!/usr/bin/env python3
"""Starts the Compose files of doc/compose in podman and lets people chat through them, while one
node after another is killed.

    tests/containers/compose.py
    tests/containers/compose.py --keep     # leaves the cluster running at the end

Needs podman, podman-compose, netavark, aardvark-dns, runc and mmdebstrap.

Nothing is pulled from a registry: PostgreSQL, Redis (in place of Valkey) and HAProxy are Debian's,
in images with the names of the real ones. mmdebstrap makes them the first time, which takes two
minutes; they are kept in target/containers with everything else.
"""

import argparse
import base64
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from engine import ROOT, WORK, configure, debian, run

COMPOSE = ROOT / "doc/compose"
PACKAGES = "ca-certificates,postgresql,redis-server,haproxy,openssl"
PATIENCE = 120

# The part of the first start of PostgreSQL's image that the Compose files rely on.
POSTGRES = r"""#!/bin/sh
set -e
data=/var/lib/postgresql/data
bin=$(echo /usr/lib/postgresql/*/bin)
as="setpriv --reuid=postgres --regid=postgres --clear-groups"
mkdir -p $data /run/postgresql
chown postgres $data /run/postgresql
if [ ! -s $data/PG_VERSION ]; then
    cp "$POSTGRES_PASSWORD_FILE" /tmp/password
    chown postgres /tmp/password
    $as $bin/initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-host=scram-sha-256 $POSTGRES_INITDB_ARGS $data
    rm /tmp/password
    echo "host all all all scram-sha-256" >> $data/pg_hba.conf
    $as $bin/pg_ctl -D $data -o "-c listen_addresses=''" -w start
    $as $bin/createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
    $as $bin/pg_ctl -D $data -m fast -w stop
fi
exec $as $bin/postgres -D $data -c listen_addresses='*'
"""

IMAGES = {
    "docker.io/library/postgres:17": 'COPY postgres /usr/local/bin/start\nENTRYPOINT ["/usr/local/bin/start"]\n',
    "docker.io/valkey/valkey:8": "RUN ln -s redis-server /usr/bin/valkey-server && ln -s redis-cli /usr/bin/valkey-cli\nUSER redis\n",
    "docker.io/library/haproxy:3.0": 'USER haproxy\nENTRYPOINT ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]\n',
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=ROOT / "target/release/rookery", help="the server of the image")
    arguments.add_argument("--keep", action="store_true", help="leave the cluster running")
    arguments = arguments.parse_args()
    configure()
    images(arguments.binary)
    try:
        alone()
        cluster()
    finally:
        if not arguments.keep:
            for folder in (COMPOSE, COMPOSE / "cluster"):
                compose(folder, "down", "--volumes", check=False)
    print("all of it works")


def images(binary):
    base = "localhost/debian-services"
    debian(base, PACKAGES)
    context = WORK / "context"
    context.mkdir(exist_ok=True)
    (context / "postgres").write_text(POSTGRES)
    (context / "postgres").chmod(0o755)
    for name, lines in IMAGES.items():
        (context / "Containerfile").write_text(f"FROM {base}\n{lines}")
        run("podman", "build", "--tag", name, context)
    run(ROOT / "packaging/image", binary, "rookery", env={**os.environ, "BASE": base, "BUILDER": base, "ENGINE": "podman"})


def compose(folder, *words, check=True):
    return run("podman-compose", *words, cwd=folder, check=check)


def inside(folder, service, *words, check=True, text=None):
    name = f"{folder.name}_{service}_1"
    return run("podman", "exec", *(["-i"] if text else []), name, *words, check=check, input=text)


def until(what, test):
    end = time.monotonic() + PATIENCE
    while True:
        found = test()
        if found:
            return found
        if time.monotonic() > end:
            for line in run("podman", "ps", "--all").splitlines():
                print(line)
                if not line.startswith("CONTAINER"):
                    print(subprocess.run(["podman", "logs", "--tail", "20", line.split()[0]], capture_output=True, text=True, errors="replace"))
            sys.exit(f"{what}: not in {PATIENCE} s")
        time.sleep(0.3)


def ready(folder, service):
    def asked():
        name = f"{folder.name}_{service}_1"
        return subprocess.run(["podman", "healthcheck", "run", name], capture_output=True).returncode == 0
    until(f"{service} is healthy", asked)


def add(folder, service, *users):
    for user in users:
        inside(folder, service, "rookery", "user", "add", f"{user}@localhost", "--password-stdin", text="pencil-pencil\n")


def alone():
    (COMPOSE / "database.password").write_text("a secret of this try\n")
    begun = time.monotonic()
    compose(COMPOSE, "up", "--detach")
    ready(COMPOSE, "rookery")
    print(f"compose.yaml: a server with PostgreSQL is ready after {time.monotonic() - begun:.1f} s")
    add(COMPOSE, "rookery", "alice", "bob")
    alice, bob = Client("alice"), Client("bob")
    alice.say("bob", "with a database")
    bob.hears("with a database")
    report = json.loads(inside(COMPOSE, "rookery", "rookery", "check", "--json", check=False))
    wrong = [found for found in report["findings"] if found["grade"] in ("fault", "blocked")]
    assert not wrong and any("PostgreSQL" in found["text"] for found in report["findings"]), report
    compose(COMPOSE, "down")
    compose(COMPOSE, "up", "--detach")
    ready(COMPOSE, "rookery")
    users = inside(COMPOSE, "rookery", "rookery", "user", "list").split()
    assert users == ["admin@localhost", "alice@localhost", "bob@localhost"], users
    Client("alice")
    print("compose.yaml: accounts are there after down and up")
    compose(COMPOSE, "down", "--volumes")
    (COMPOSE / "database.password").unlink()


def cluster():
    folder = COMPOSE / "cluster"
    begun = time.monotonic()
    run(folder / "start", env={**os.environ, "COMPOSE": "podman-compose"})
    nodes = ["n1", "n2", "n3"]
    for node in nodes:
        ready(folder, node)
    until("three nodes are up", lambda: len(re.findall(r"\bup\b", inside(folder, "n1", "rookery", "node", "list", check=False))) == 3)
    print(f"cluster/compose.yaml: three nodes are up after {time.monotonic() - begun:.1f} s")
    users = [f"u{number}" for number in range(6)]
    add(folder, "n1", *users)
    everybody_hears("at the start", users)
    for node in nodes:
        name = f"{folder.name}_{node}_1"
        killed = time.monotonic()
        run("podman", "kill", name)
        everybody_hears(f"without {node}", users)
        print(f"cluster/compose.yaml: {node} was killed, and everybody reaches everybody {time.monotonic() - killed:.1f} s later")
        page = urllib.request.urlopen("https://localhost:5443/", context=trusting()).read().decode()
        assert "localhost" in page, page
        other = nodes[(nodes.index(node) + 1) % 3]
        run("podman", "start", name, check=False)
        ready(folder, node)
        listed = lambda: inside(folder, other, "rookery", "node", "list", check=False)
        until(f"{node} is up again", lambda: len(re.findall(r"\bup\b", listed())) == 3)


def everybody_hears(text, users):
    """Logs everybody in, on the node that the balancer picks, and lets each write to each of the
    others. A client that loses its connection connects again, since a home may be moving.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            clients = {user: Client(user) for user in users}
            for sender in users:
                for user in users:
                    clients[sender].say(user, f"{text}: {sender} to {user}")
            for user in users:
                for sender in users:
                    clients[user].hears(f"{text}: {sender} to {user}")
            return [client.close() for client in clients.values()]
        except (OSError, EOFError, AssertionError) as error:
            if time.monotonic() > end:
                raise
            print(f"  once more: {error!r}"[:200])
            time.sleep(0.5)


def trusting():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Client:
    """A client that is online, over direct TLS."""

    def __init__(self, name):
        self.name, self.heard = name, ""
        self.socket = trusting().wrap_socket(socket.create_connection(("localhost", 5223), 5), server_hostname="localhost")
        self.socket.settimeout(10)
        self.stream()
        key = base64.b64encode(f"\0{name}\0pencil-pencil".encode()).decode()
        self.write(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{key}</auth>")
        self.hears("<success")
        self.stream()
        self.write("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
        self.hears("</jid>")
        self.write("<presence/>")
        self.hears("<presence")

    def stream(self):
        self.write("<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>")
        self.hears("</stream:features>")

    def write(self, text):
        self.socket.sendall(text.encode())

    def say(self, to, text):
        self.write(f"<message type='chat' to='{to}@localhost'><body>{text}</body></message>")

    def hears(self, text):
        while text not in self.heard:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError(f"{self.name} was left waiting for {text!r}: {self.heard[-300:]}")
            self.heard += more.decode()
        # Earlier stanzas may be wanted later, except for the stream's own answers.
        if text.startswith("<"):
            self.heard = self.heard.split(text, 1)[1]

    def close(self):
        self.write("</stream:stream>")
        self.socket.close()


if __name__ == "__main__":
    main()
