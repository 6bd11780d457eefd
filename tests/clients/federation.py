"""Servers that meet: two Rookeries, and Rookery with Debian's Prosody and ejabberd, which all ask one DNS server."""

import asyncio
import itertools
import signal
import subprocess
import urllib.request

import slixmpp

from network import Network
from person import Person
from rookery import BINARY


async def two_rookeries_meet():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", network)
            assert "another server has opened a stream" in one.log.read_text(), one.log.read_text()


async def rookery_and_prosody_meet():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", network)


async def rookery_and_prosody_share_one_connection():
    """Whichever server calls, the other one answers on the same connection (XEP-0288), with acknowledgements in both directions (XEP-0198)."""
    for caller in ("one.example", "two.example"):
        async with Network() as network:
            prosody = network.prosody("two.example", "bob", modules=("s2s_bidi", "smacks"))
            async with network.rookery("one.example", "alice") as one, prosody as two:
                people = Person(one, "alice@one.example", trust=network.authority), Person(two, "bob@two.example", trust=network.authority)
                async with people[0] as alice, people[1] as bob:
                    first, second = (alice, bob) if caller == "one.example" else (bob, alice)
                    for number in range(20):
                        first.write(second.bare, f"there {number}")
                        await second.reads(f"there {number}", of=first.bare)
                        second.write(first.bare, f"back {number}")
                        await first.reads(f"back {number}", of=second.bare)
                    listed = [line.split("\t") for line in one.command("s2s", "list").splitlines()[1:]]
                    streams = sorted((way, state, address) for remote, _, way, state, _, address, *_ in listed if remote == "two.example")
                    assert [(way, state) for way, state, _ in streams] == [("in", "ready"), ("out", "ready")], listed
                    assert streams[0][2] == streams[1][2], listed


async def rookery_and_ejabberd_meet():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.ejabberd("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", network)


async def rookery_and_prosody_outlive_each_other():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "bob") as two:
            await _outlive(one, "alice@one.example", two, "bob@two.example", network)


async def rookery_and_ejabberd_outlive_each_other():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.ejabberd("two.example", "bob") as two:
            await _outlive(one, "alice@one.example", two, "bob@two.example", network)


async def a_server_whose_certificate_is_foreign_gets_nothing():
    async with Network() as network, Network() as other:
        # One network, and an authority that the other doesn't know.
        other.names = network.names
        async with network.rookery("one.example", "alice") as one, other.rookery("two.example", "bob", dns=network.dns) as two:
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                async with Person(two, "bob@two.example", trust=other.authority) as bob:
                    alice.write("bob@two.example", "hello")
                    error = await alice.take("message_error", lambda _: True)
                    assert error["error"]["condition"] == "remote-server-timeout", error
                    await bob.quiet()
                    assert not bob.seen["message"], bob.seen["message"]


async def operators_see_what_happens():
    """Each step of reaching a server is told; streams are listed, shown as metrics, and closed."""
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            reached = await asyncio.to_thread(one.command, "s2s", "two.example")
            for words in ("SRV: 0 0", "tries     127.0.0.1:", "offered   starttls", "it is for the domain", "EXTERNAL: it accepts", "proven by TLS, certificate"):
                assert words in reached, reached
            for nowhere, cause in (("nowhere.example", "DNS has no server"), ("10.0.0.1", "")):
                ended = await asyncio.to_thread(
                    subprocess.run, [BINARY, "--config", "rookery.toml", "s2s", nowhere], cwd=one.folder, text=True, capture_output=True
                )
                assert ended.returncode == 1 and "fault" in ended.stdout and cause in ended.stdout, ended
            assert "there is no stream" in one.command("s2s", "list")
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                async with Person(two, "bob@two.example", trust=network.authority) as bob:
                    alice.write(bob.jid, "1")
                    await bob.reads("1", of=alice.bare)
                    assert "two.example\tone.example\tout\tready\tTLS, certificate" in one.command("s2s", "list")
                    assert "one.example\ttwo.example\tin\tready\tTLS, certificate" in two.command("s2s", "list")
                    with urllib.request.urlopen(f"http://127.0.0.1:{one.web_port}/metrics") as page:
                        metrics = page.read().decode()
                    assert 'rookery_s2s_streams{direction="out",proven="TLS, certificate"} 1' in metrics, metrics
                    assert "streams closed: 1" in one.command("s2s", "close", "two.example")
                    alice.write(bob.jid, "2")
                    await bob.reads("2", of=alice.bare)
            checked = await asyncio.to_thread(one.command, "check")
            assert "_xmpp-server._tcp.one.example. SRV" in checked, checked


async def _meet(one, alice, two, bob, network):
    """People of both servers chat, see each other, and meet in rooms of either."""
    async with Person(one, alice, trust=network.authority) as alice, Person(two, bob, trust=network.authority) as bob:
        for number in range(20):
            alice.write(bob.jid, f"to {number}")
        for number in range(20):
            await bob.reads(f"to {number}", of=alice.bare)
        for number in range(20):
            bob.write(alice.jid, f"back {number}")
        for number in range(20):
            await alice.reads(f"back {number}", of=bob.bare)
        for asker, asked in ((alice, bob), (bob, alice)):
            asker.client.send_presence_subscription(pto=asked.bare, ptype="subscribe")
            await asked.presence(asker.bare, "subscribe")
            asked.client.send_presence(pto=asker.bare, ptype="subscribed")
            await asker.presence(asked.jid)
        alice.client.send_presence(pshow="away")
        await bob.take("presence", lambda it: it["from"] == alice.jid and it["show"] == "away")
        for host in (alice.jid.domain, bob.jid.domain):
            await _room(slixmpp.JID(f"coven@conference.{host}"), alice, bob)
        alice.write("nobody@nowhere.example", "hello?")
        error = await alice.take("message_error", lambda it: it["from"].domain == "nowhere.example")
        assert error["error"]["condition"] == "remote-server-not-found", error


async def _room(room, alice, bob):
    hosts = (alice, bob) if room.domain.endswith(alice.jid.domain) else (bob, alice)
    for person in hosts:
        if "groupchat_message" not in person.seen:
            person.seen["groupchat_message"] = []
            person.client.register_plugin("xep_0045")
            person.client.add_event_handler("groupchat_message", person.seen["groupchat_message"].append)
        await person.client["xep_0045"].join_muc_wait(room, person.jid.user, timeout=20, maxstanzas=0)
        if person is hosts[0]:
            form = await person.client["xep_0045"].get_room_config(room, timeout=20)
            form["type"] = "submit"
            await person.client["xep_0045"].set_room_config(room, form, timeout=20)
    for person in hosts:
        person.write(room, f"hello from {person.jid.user}", mtype="groupchat")
        for hearer in hosts:
            message = await hearer.take("groupchat_message", lambda it: it["body"] == f"hello from {person.jid.user}")
            assert message["from"] == f"{room}/{person.jid.user}", message


async def _outlive(one, alice, two, bob, network):
    """Either server is stopped and killed in the middle; whoever writes in the meantime is told, and nothing is lost without a word."""
    people = [Person(one, alice, trust=network.authority), Person(two, bob, trust=network.authority)]
    for person in people:
        await person.login()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for at, server in enumerate((one, two)):
            await _reach(people[1 - at], people[at])
            await _reach(people[at], people[1 - at])
            await server.stop(number)
            writer = people[1 - at]
            writer.write(people[at].bare, "anybody there?")
            error = await writer.take("message_error", lambda it: it["from"].bare == people[at].bare)
            assert error["error"]["condition"] in ("remote-server-timeout", "remote-server-not-found"), error
            await server.start()
            people[at] = Person(server, (alice, bob)[at], trust=network.authority)
            await people[at].login()
    await _reach(people[1], people[0])
    await _reach(people[0], people[1])
    for person in people:
        await person.logout()


async def _reach(writer, reader):
    """Writes until a message arrives: a server that was away isn't tried again at once. Each that doesn't arrive comes back."""
    for number in itertools.count():
        message = writer.client.make_message(mto=reader.bare, mbody=f"{reader.bare}, {number}", mtype="chat")
        message["id"] = f"{reader.bare} {number}"
        message.send()
        is_it = lambda it: it["id"] == message["id"]
        arrived = lambda: any(map(is_it, reader.seen["message"]))
        await writer.until(lambda: arrived() or any(map(is_it, writer.seen["message_error"])), message["body"])
        if arrived():
            return
        await asyncio.sleep(0.5)
