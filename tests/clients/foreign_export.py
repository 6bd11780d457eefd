#!/usr/bin/env python3
"""Has ejabberd and Prosody, as Debian packages them, export accounts with real data (XEP-0227), for
`rookery user import`.

    tests/clients/foreign_export.py ejabberd FOLDER
    tests/clients/foreign_export.py prosody FOLDER

or keep them in a database of SQLite, `FOLDER/SERVER.db`, for `rookery user import --from`:

    tests/clients/foreign_export.py ejabberd-database FOLDER
    tests/clients/foreign_export.py prosody-database FOLDER

Starts the server on loopback with two accounts in a temporary folder, lets them fill in rosters,
vCards, private data, bookmarks, nodes and messages that wait, has the server write its export into
FOLDER, and stops it. Needs the packages of tests/clients/requirements.txt, and Debian's package of
the server. Then

    rookery user --data-dir DATA import FOLDER/…

must import two accounts; what it leaves out, it names.
"""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import slixmpp

from ports import free_port

DOMAIN = "localhost"
PASSWORD = "pencil"
CARD = "<vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN><NICKNAME>jul</NICKNAME></vCard>"
SETTINGS = "<exodus xmlns='exodus:prefs'><defaultnick>Jul</defaultnick></exodus>"
BOOKMARKS = "<storage xmlns='storage:bookmarks'><conference jid='coven@chat.example' name='Coven' autojoin='1'/></storage>"


def main():
    server, folder = sys.argv[1:]
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="foreign-") as home:
        port = free_port()
        SERVERS[server](Path(home), port, folder)


def ejabberd(home, port, folder):
    run_ejabberd(home, port, EJABBERD, f"R = ejabberd_piefxis:export_server(<<\"{folder}\">>), io:format(\"~p~n\", [R]),")


def ejabberd_database(home, port, folder):
    """Passwords are stored hashed (SCRAM), except a third account's, which is plain."""
    database = folder / "ejabberd.db"
    config = EJABBERD.replace("auth_method: mnesia", f"auth_method: sql\nsql_type: sqlite\nsql_database: {database}")
    config = config.replace("default_db: mnesia", "default_db: sql") + "  mod_mam: {default: always}\n"
    run_ejabberd(home, port, config, "")
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO users (username, password) VALUES ('nurse', ?)", (PASSWORD,))


def run_ejabberd(home, port, config, export):
    libraries = next(
        line.split("=", 1)[1].strip("'\"\n")
        for line in open("/usr/sbin/ejabberdctl")
        if line.startswith("ERL_LIBS=")
    )
    (home / "ejabberd.yml").write_text(config.replace("PORT", str(port)))
    go, done = home / "go", home / "done"
    register = " ".join(f'ejabberd_auth:try_register(<<"{name}">>, <<"{DOMAIN}">>, <<"{PASSWORD}">>),' for name in NAMES)
    script = (
        f"{register} file:write_file(\"{home}/ready\", <<>>), "
        f"Wait = fun(Again) -> case filelib:is_file(\"{go}\") of true -> ok; false -> timer:sleep(100), Again(Again) end end, "
        f"Wait(Wait), {export} application:stop(ejabberd), "
        f'file:write_file("{done}", <<>>), halt(0).'
    )
    environment = dict(os.environ, EJABBERD_CONFIG_PATH=str(home / "ejabberd.yml"), EJABBERD_LOG_PATH=str(home / "log"))
    environment.update(HOME=str(home), ERL_LIBS=libraries)
    command = ["erl", "-noinput", "-mnesia", "dir", f'"{home}/spool"', "-s", "ejabberd", "-eval", script]
    process = subprocess.Popen(command, env=environment, cwd=home)
    with ended(process):
        wait_for((home / "ready").exists)
        asyncio.run(fill(port))
        go.touch()
        wait_for(done.exists)


def prosody(home, port, folder):
    run_prosody(home, port, PROSODY)
    config = home / "migrator.cfg.lua"
    config.write_text(MIGRATOR.replace("HOME", str(home)))
    # The migrator writes into the package's default folder, whatever its configuration says.
    migrator = home / "migrator.lua"
    migrator.write_text(Path("/usr/bin/prosody-migrator").read_text().replace("/var/lib/prosody", str(folder)))
    subprocess.run(["lua5.4", migrator, "--root", f"--config={config}", "from", "to"], check=True, cwd=home)


def prosody_database(home, port, folder):
    kept = f'storage = "sql"\nsql = {{ driver = "SQLite3", database = "{folder}/prosody.db" }}\ndefault_archive_policy = true'
    run_prosody(home, port, PROSODY.replace('storage = "internal"', kept).replace('"offline" }', '"offline", "mam" }'))


def run_prosody(home, port, settings):
    (home / "data").mkdir()
    config = home / "prosody.cfg.lua"
    config.write_text(settings.replace("PORT", str(port)).replace("HOME", str(home)))
    for name in NAMES:
        subprocess.run(
            ["prosodyctl", "--root", "--config", config, "register", name, DOMAIN, PASSWORD], check=True, stdout=subprocess.DEVNULL
        )
    process = subprocess.Popen(["prosody", "--root", "-F", "--config", config], cwd=home)
    with ended(process):
        wait_for(lambda: answers(port))
        asyncio.run(fill(port))


async def fill(port):
    """Creates the data step by step. Each step waits for the one before, since a busy machine is
    slow.
    """
    juliet, romeo = [await client(name, port) for name in NAMES]
    for one, other in ((juliet, romeo), (romeo, juliet)):
        one.update_roster(f"{other.boundjid.bare}", name="Friend", groups=["Friends"])
        one.send_presence_subscription(f"{other.boundjid.bare}")
    juliet.send_presence_subscription("stranger@far.example")
    for one, other in ((juliet, romeo), (romeo, juliet)):
        await until(lambda: one.client_roster[other.boundjid.bare]["subscription"] == "both", "they see each other")
        await until(lambda: one.client_roster[other.boundjid.bare]["name"] == "Friend", "they know each other by name")
    await until(lambda: juliet.client_roster["stranger@far.example"]["pending_out"], "the stranger is asked")
    await iq(juliet, "set", CARD)
    for element in (SETTINGS, BOOKMARKS):
        await iq(juliet, "set", f"<query xmlns='jabber:iq:private'>{element}</query>")
    tune = "<tune xmlns='http://jabber.org/protocol/tune'><artist>Yes</artist></tune>"
    publish = f"<publish node='http://jabber.org/protocol/tune'><item id='current'>{tune}</item></publish>"
    await iq(juliet, "set", f"<pubsub xmlns='http://jabber.org/protocol/pubsub'>{publish}</pubsub>")
    await iq(juliet, "set", "<block xmlns='urn:xmpp:blocking'><item jid='tybalt@far.example'/></block>")
    # A message that arrives before the server has noticed her leaving is lost with her connection.
    left = asyncio.Event()
    romeo.add_event_handler("got_offline", lambda presence: presence["from"].bare == juliet.boundjid.bare and left.set())
    await until(lambda: romeo.client_roster[juliet.boundjid.bare].resources, "he sees her")
    await leave(juliet)
    await asyncio.wait_for(left.wait(), 60)
    romeo.send_message(f"juliet@{DOMAIN}", "Art thou there?", mtype="chat")
    # Servers process a connection's stanzas in order.
    await romeo.get_roster(timeout=60)
    await leave(romeo)


async def until(is_so, what, seconds=60):
    """Waits for a condition that no event reports."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not in {seconds} s: {what}")
        await asyncio.sleep(0.05)


async def leave(client):
    """Returns when the connection is closed."""
    await asyncio.wait_for(client.disconnect(), 60)


async def client(name, port):
    it = slixmpp.ClientXMPP(f"{name}@{DOMAIN}/r", PASSWORD)
    it.enable_starttls, it.enable_direct_tls, it.enable_plaintext = False, False, True
    it.plugin["feature_mechanisms"].unencrypted_plain = True
    it.auto_authorize, it.auto_subscribe = True, True
    started = asyncio.Event()
    it.add_event_handler("session_start", lambda _: started.set())
    it.connect("127.0.0.1", port)
    await asyncio.wait_for(started.wait(), 20)
    await it.get_roster()
    it.send_presence()
    return it


async def iq(client, kind, payload):
    stanza = client.make_iq(itype=kind)
    stanza.append(ET.fromstring(payload))
    try:
        await stanza.send(timeout=10)
    except slixmpp.exceptions.IqError as error:
        print(f"not taken: {payload[:60]}…: {error.condition}", file=sys.stderr)


class ended:
    """Ends a process even when its block fails."""

    def __init__(self, process):
        self.process = process

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def answers(port):
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def wait_for(is_so, seconds=60):
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError("the server takes too long")
        time.sleep(0.1)


NAMES = ("juliet", "romeo")

SERVERS = {
    "ejabberd": ejabberd,
    "prosody": prosody,
    "ejabberd-database": ejabberd_database,
    "prosody-database": prosody_database,
}

EJABBERD = """
hosts: ["localhost"]
loglevel: error
certfiles: []
listen:
  - port: PORT
    ip: "127.0.0.1"
    module: ejabberd_c2s
    access: all
    starttls: false
auth_method: mnesia
auth_password_format: scram
default_db: mnesia
modules:
  mod_blocking: {}
  mod_caps: {}
  mod_disco: {}
  mod_offline: {}
  mod_privacy: {}
  mod_private: {}
  mod_pubsub:
    plugins: [flat, pep]
  mod_roster: {}
  mod_vcard: {}
"""

PROSODY = """
run_as_root = true
data_path = "HOME/data"
certificates = "HOME"
pidfile = "HOME/prosody.pid"
log = { warn = "HOME/log" }
interfaces = { "127.0.0.1" }
c2s_ports = { PORT }
c2s_direct_tls_ports = {}
s2s_ports = {}
http_ports = {}
https_ports = {}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_hashed"
storage = "internal"
modules_enabled = { "roster", "saslauth", "disco", "private", "vcard_legacy", "pep", "blocklist", "offline" }
modules_disabled = { "s2s", "tls" }
VirtualHost "localhost"
"""

MIGRATOR = """
local stores = { "accounts", "roster", "vcard", "private", "pep-pubsub" }
from { hosts = { ["localhost"] = stores }; type = "internal"; path = "HOME/data" }
to { hosts = { ["localhost"] = stores }; type = "xep0227" }
"""


if __name__ == "__main__":
    main()
