"""Runs components (XEP-0114): slixmpp's, and two bridges as they are installed, slidge from PyPI
and biboumi from Debian.
"""

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import slixmpp
from slixmpp.componentxmpp import ComponentXMPP

from person import PATIENCE, Person
from rookery import Rookery

SECRET = "a secret of components"


async def a_component_and_people_talk():
    async with _server("echo.localhost") as server:
        async with _component(server, "echo.localhost") as echo, Person(server, "alice@localhost") as alice:
            echo.add_event_handler("message", lambda message: message.reply(f"echo of {message['body']}").send())
            for number in range(50):
                alice.write("anybody@echo.localhost", f"{number}")
            for number in range(50):
                await alice.reads(f"echo of {number}", of="anybody@echo.localhost")
            info = await alice.client["xep_0030"].get_info("echo.localhost", timeout=PATIENCE)
            assert ("component", "generic") in {identity[:2] for identity in info["disco_info"]["identities"]}, info
            items = await alice.client["xep_0030"].get_items("localhost", timeout=PATIENCE)
            assert "echo.localhost" in {item[0] for item in items["disco_items"]["items"]}, items
        async with Person(server, "alice@localhost") as alice:
            alice.write("anybody@echo.localhost", "still there?")
            error = await alice.take("message_error", lambda _: True)
            assert error["error"]["condition"] == "remote-server-timeout", error


async def a_component_with_another_secret_stays_out():
    async with _server("echo.localhost") as server:
        component = ComponentXMPP("echo.localhost", "another secret", "127.0.0.1", await _port(server))
        refused = asyncio.get_running_loop().create_future()
        component.add_event_handler("stream_error", lambda error: refused.done() or refused.set_result(error))
        component.connect()
        error = await asyncio.wait_for(refused, PATIENCE)
        assert error["condition"] == "not-authorized", error
        component.cancel_connection_attempt()
        await component.disconnect(wait=1)
        await server.says("a component used a different secret")


async def biboumi_is_a_component():
    """IRC rooms are searched for and one is joined; no IRC server can be reached, which biboumi
    reports.
    """
    async with _server("irc.localhost") as server:
        config = server.folder / "biboumi.cfg"
        config.write_text(f"""
hostname=irc.localhost
password={SECRET}
xmpp_server_ip=127.0.0.1
port={await _port(server)}
db_name={server.folder}/biboumi.sqlite
""")
        process = subprocess.Popen(["biboumi", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await server.says("a component is connected")
            async with Person(server, "alice@localhost") as alice:
                info = await alice.client["xep_0030"].get_info("irc.localhost", timeout=PATIENCE)
                assert ("conference", "irc") in {identity[:2] for identity in info["disco_info"]["identities"]}, info
                version = await alice.client["xep_0092"].get_version("irc.localhost", timeout=PATIENCE)
                assert version["software_version"]["name"] == "biboumi", version
                room = alice.client.make_presence(pto="#nowhere%127.0.0.1@irc.localhost/alice")
                room.append(slixmpp.xmlstream.ET.Element("{http://jabber.org/protocol/muc}x"))
                room.send()
                await alice.until(
                    lambda: any(it["from"].domain == "irc.localhost" for it in _heard(alice)), "a word about the room"
                )
        finally:
            process.terminate()
            process.wait()


async def slidge_is_a_privileged_component():
    """slidge adds its users to the roster and sends what the user has written elsewhere (XEP-0356).
    When it dies, its users go offline.
    """
    privileges = """roster = "both"
messages = true
presence = true
requests = ["http://jabber.org/protocol/pubsub both", "http://jabber.org/protocol/pubsub#owner set"]
"""
    async with _server("tiny.localhost", privileges) as server:
        options = {
            "legacy-module": "tiny_bridge", "jid": "tiny.localhost", "secret": SECRET, "server": "127.0.0.1",
            "port": await _port(server), "home-dir": server.folder / "slidge", "user-jid-validator": ".*@localhost",
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        log = open(server.folder / "slidge.log", "w")
        place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
        process = subprocess.Popen([sys.executable, "-m", "slidge", *arguments], env=place, stdout=log, stderr=log)
        try:
            await server.says("a component is connected")
            async with Person(server, "alice@localhost") as alice:
                alice.client.register_plugin("xep_0280")
                await alice.client["xep_0280"].enable(timeout=PATIENCE)
                register = alice.client.make_iq_set(ito="tiny.localhost")
                register.append(
                    slixmpp.xmlstream.ET.fromstring("<query xmlns='jabber:iq:register'><username>alice</username></query>")
                )
                await register.send(timeout=PATIENCE)
                ann = "ann@tiny.localhost"
                await alice.until(lambda: alice.client.client_roster[ann]["subscription"] == "both", "Ann in the roster")
                assert alice.client.client_roster[ann]["name"] == "Ann", alice.client.client_roster[ann]
                await alice.until(lambda: alice.client.client_roster.presence(ann), "Ann's presence")
                alice.write(ann, "hello")
                # The bridge has sent a welcome message before.
                await alice.until(lambda: any(it["body"] == "echo of hello" for it in alice.seen["message"]), "an echo")
                sent = []
                alice.client.add_event_handler("carbon_sent", sent.append)
                alice.write(ann, "elsewhere")
                await alice.until(lambda: any("written on my phone" in str(message) for message in sent), "a copy of it")
                process.kill()
                await alice.until(lambda: not alice.client.client_roster.presence(ann), "Ann's farewell")
        except BaseException:
            print("What slidge said:", *(server.folder / "slidge.log").read_text().splitlines()[-60:], sep="\n  ")
            raise
        finally:
            process.kill()
            process.wait()
            log.close()


def _heard(person):
    return [it for event in ("message", "message_error", "presence") for it in person.seen[event]] + [
        it for it in person.seen.get("presence_error", [])
    ]


@asynccontextmanager
async def _server(name, privileges=""):
    tables = f'[component."{name}"]\nsecret = "{SECRET}"\n{privileges}'
    async with Rookery("alice", listen='components = ["127.0.0.1:0"]', tables=tables) as server:
        yield server


async def _port(server):
    return int((await server.says(r"\S+:(\d+) \(components\)"))[1])


@asynccontextmanager
async def _component(server, name):
    component = ComponentXMPP(name, SECRET, "127.0.0.1", await _port(server))
    component.register_plugin("xep_0030")
    component["xep_0030"].add_identity(category="component", itype="generic", name="Echo", jid=name)
    started = asyncio.get_running_loop().create_future()
    component.add_event_handler("session_start", lambda _: started.done() or started.set_result(None))
    component.connect()
    await asyncio.wait_for(started, PATIENCE)
    try:
        yield component
    finally:
        await component.disconnect(wait=1)
