"""Runs federated servers: two Rookeries, and Rookery with Debian's Prosody and ejabberd. All use
one DNS server.
"""

import asyncio
import itertools
import re
import signal
import socket
import ssl
import subprocess
import urllib.parse
import urllib.request

import slixmpp
from slixmpp import Message
from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import StanzaPath

from browser import Browser, token
from network import Network
from person import PATIENCE, Person
from ports import free_port
from rookery import BINARY
from zone import Zone, unbound


async def two_rookeries_meet():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", network)
            assert "another server has opened a stream" in one.log.read_text(), one.log.read_text()


async def a_server_is_called_at_the_port_for_browsers():
    """One HTTPS port serves clients, browsers and other servers, which it tells apart by ALPN
    (XEP-0368).
    """
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            del network.names["_xmpp-server._tcp.two.example.", "SRV"]
            network.names["_xmpps-server._tcp.two.example.", "SRV"] = f"0 0 {two.web_tls_port} two.example."
            await _meet(one, "alice@one.example", two, "bob@two.example", network)
            listed = [line.split("\t") for line in one.command("s2s", "list").splitlines()[1:]]
            called = [address for remote, local, way, _, _, address, *_ in listed if (remote, local, way) == ("two.example", "one.example", "out")]
            assert called == [f"127.0.0.1:{two.web_tls_port}"], listed


async def another_server_tells_whether_it_finds_the_way_here():
    """`rookery check --outside --via` sends only a ping; the connection that carries the reply
    tells the rest.
    """
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            said = await asyncio.to_thread(_checked, one, "two.example")
            assert "ok       from outside   two.example has answered" in said, said
            await two.stop()
            one.command("s2s", "close", "two.example")
            said = await asyncio.to_thread(_checked, one, "two.example")
            assert "warning  from outside   two.example hasn't answered: " in said, said


def _checked(server, other):
    """The result of the check from outside, through another server."""
    return server.command("check", "--outside", "--via", other, code=3)


async def rookery_and_prosody_meet():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", network)


async def rookery_and_prosody_share_one_connection():
    """Whichever server connects, the other replies on the same connection (XEP-0288), with
    acknowledgements in both directions (XEP-0198).
    """
    for caller in ("one.example", "two.example"):
        async with Network() as network:
            prosody = network.prosody("two.example", "bob", modules=("dialback", "s2s_bidi", "smacks"))
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
        # The servers share DNS, but each has an authority that the other doesn't trust.
        other.names = network.names
        async with network.rookery("one.example", "alice") as one, other.rookery("two.example", "bob", dns=network.dns) as two:
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                async with Person(two, "bob@two.example", trust=other.authority) as bob:
                    alice.write("bob@two.example", "hello")
                    error = await alice.take("message_error", lambda _: True)
                    assert error["error"]["condition"] == "remote-server-timeout", error
                    await bob.quiet()
                    assert not bob.seen["message"], bob.seen["message"]


async def what_a_server_without_acknowledgements_has_not_read_comes_back():
    """ejabberd has no XEP-0198 between servers: its replies to pings show what it has read. It
    hangs, and is killed once its system has accepted everything that was sent.
    """
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.ejabberd("two.example", "bob") as two:
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                bob = Person(two, "bob@two.example", trust=network.authority)
                await bob.login()
                await _reach(alice, bob)
                await _reach(bob, alice)
                async with asyncio.timeout(PATIENCE):
                    while "urn:xmpp:ping" not in two.log.read_text():
                        await asyncio.sleep(0.1)
                # A message sent after the reply has arrived, and therefore the reply has too.
                await _reach(bob, alice)
                two.process.send_signal(signal.SIGSTOP)
                ids = [f"never read {number}" for number in range(5)]
                for id in ids:
                    message = alice.client.make_message(mto=bob.bare, mbody=id, mtype="chat")
                    message["id"] = id
                    message.send()
                # The message that reached Bob may come back as well: no reply to a ping need have covered it yet.
                errors = lambda: [error for error in alice.seen["message_error"] if error["id"] in ids]
                await alice.quiet()
                assert not errors(), errors()
                await two.stop(signal.SIGKILL)
                await alice.until(lambda: len(errors()) >= 5, "message_error")
                await alice.quiet()
                told = [(error["id"], error["error"]["condition"]) for error in errors()]
                assert told == [(id, "remote-server-timeout") for id in ids], told


async def somebody_on_prosody_is_a_push_service():
    """A push service on another server notifies an offline user (XEP-0357), as with real phones. A
    service that can't be reached for a while is tried again.
    """
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "service") as two:
            service = await _push_service(two, network)
            alice = Person(one, "alice@one.example", trust=network.authority)
            await alice.login()
            request = alice.client.make_iq_set()
            request.append(ET.fromstring(f"<enable xmlns='urn:xmpp:push:0' jid='{service.jid}' node='yxs32uqsflafdk3iuqo'/>"))
            await request.send(timeout=20)
            await alice.logout()
            service.write(alice.bare, "are you there?")
            await _pushed(service)
            resource = service.jid.resource
            await service.logout()
            await two.stop()
            await two.start()
            service = await _push_service(two, network, resource)
            # The server doesn't reconnect at once to a server that was away; each message makes it
            # try again.
            for number in _NUMBERS:
                service.write(alice.bare, f"and now? {number}")
                await service.quiet()
                if service.seen["publish"]:
                    break
                await asyncio.sleep(0.5)
            await _pushed(service)
            await service.logout()


async def _push_service(server, network, resource="push"):
    service = Person(server, f"service@two.example/{resource}", trust=network.authority)
    service.client.register_plugin("xep_0060")
    told = service.seen["publish"] = []

    def publish(request):
        told.append(request)
        request.reply().send()

    service.client.register_handler(Callback("publish", StanzaPath("iq@type=set/pubsub/publish"), publish))
    await service.login()
    return service


async def _pushed(service):
    request = await service.take("publish", lambda _: True)
    assert request["pubsub"]["publish"]["node"] == "yxs32uqsflafdk3iuqo", request
    assert request["from"].domain == "one.example", request
    assert "there" not in str(request) and service.bare not in str(request["pubsub"]), request


async def people_of_rookery_and_prosody_share_news_and_rooms_past():
    async with Network() as network:
        prosody = network.prosody("two.example", "bob", modules=("dialback", "pep"))
        async with network.rookery("one.example", "alice") as one, prosody as two:
            await _share(one, "alice@one.example", two, "bob@two.example", network)


async def people_of_rookery_and_ejabberd_share_news_and_rooms_past():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.ejabberd("two.example", "bob") as two:
            await _share(one, "alice@one.example", two, "bob@two.example", network)


async def one_message_reaches_300_addresses_on_rookery_prosody_and_ejabberd():
    """Each recipient gets its own copy (XEP-0033), with all `to` and `cc` recipients and no other
    `bcc` ones.
    """
    many = "[modules.multicast]\nlocal_messages = 300\n"
    async with Network() as network:
        prosody, ejabberd = network.prosody("two.example", "bob"), network.ejabberd("three.example", "carol")
        async with network.rookery("one.example", "alice", more=many) as one, prosody as two, ejabberd as three:
            people = [Person(server, jid, trust=network.authority) for server, jid in _THREE(one, two, three)]
            async with people[0] as alice, people[1] as bob, people[2] as carol:
                alice.client.register_plugin("xep_0033")
                message = Message(alice.client, sto="multicast.one.example", stype="chat")
                message["body"] = "to all"
                # Messages to resources that don't exist go to those that do (RFC 6121 §8.5.3.2.1).
                expected = {person: [f"{person.bare}/{number}" for number in range(100)] for person in (alice, bob, carol)}
                for addresses in expected.values():
                    for number, address in enumerate(addresses):
                        message["addresses"].add_address(atype="bcc" if number else "to", jid=address)
                message.send()
                for person, addresses in expected.items():
                    got = [await person.reads("to all", alice.bare) for _ in addresses]
                    everybody_s = {each[0] for each in expected.values()}
                    blind = []
                    for it in got:
                        shown = {str(address["jid"]) for address in it["addresses"]["addresses"]}
                        assert everybody_s <= shown, it
                        blind += shown - everybody_s
                    # Nobody sees another blind recipient; our own server knows that the resources
                    # don't exist.
                    own = [person.bare] * 99 if person is alice else sorted(addresses[1:])
                    assert sorted(blind) == own, blind
                    await person.quiet()
                    assert not person.seen["message"] and not person.seen["message_error"], person.seen


async def a_certificate_that_proves_nothing_is_replaced():
    """While a certificate is expired, self-signed or for other names, nothing passes in either
    direction; with a valid one everything does.
    """
    for fault in ("expired", "own", "other"):
        async with Network() as network:
            async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "bob", fault=fault) as two:
                async with Person(one, "alice@one.example", trust=network.authority) as alice:
                    # Bob's client doesn't verify the certificate of his own server.
                    async with Person(two, "bob@two.example", believing=True) as bob:
                        alice.write("bob@two.example", "secret")
                        error = await alice.take("message_error", lambda _: True)
                        assert error["error"]["condition"] == "remote-server-timeout", (fault, error)
                        bob.write(alice.bare, "from nobody")
                        await bob.take("message_error", lambda it: it["from"].bare == alice.bare)
                        await bob.quiet()
                        await alice.quiet()
                        assert not bob.seen["message"] and not alice.seen["message"], (fault, alice.seen, bob.seen)
                    await two.stop()
                    network.certify("two.example")
                    await two.start()
                    async with Person(two, "bob@two.example", trust=network.authority) as bob:
                        await _reach(alice, bob)
                        await _reach(bob, alice)


async def our_own_certificate_is_replaced_while_streams_are_open():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "bob") as two:
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                async with Person(two, "bob@two.example", trust=network.authority) as bob:
                    for _ in range(2):
                        await _reach(alice, bob)
                        await _reach(bob, alice)
                        chain, _ = network.certify("one.example")
                        await one.reload()
                        await _reach(alice, bob)
                        one.command("s2s", "close", "two.example")
                    shown = await asyncio.to_thread(_shown, one, "one.example")
                    assert ssl.PEM_cert_to_DER_cert(chain.read_text()) == shown


async def a_server_without_a_certificate_is_proven_by_dialback_where_that_is_allowed():
    allowed = 'exceptions = ["two.example dialback"]'
    async with Network() as network:
        prosody = network.prosody("two.example", "bob", fault="own", secure="false")
        async with network.rookery("one.example", "alice", federation=allowed) as one, prosody as two:
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                async with Person(two, "bob@two.example", believing=True) as bob:
                    await _reach(bob, alice)
                    await _reach(alice, bob)
                    assert "two.example\tone.example\tin\tready\tTLS, dialback" in one.command("s2s", "list")


async def a_server_without_dialback_is_proven_by_its_certificate():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.prosody("two.example", "bob", modules=()) as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", network)
            assert "dialback" not in one.command("s2s", "list")


async def a_signed_zone_decides_who_a_server_is():
    """DANE (RFC 7673) with a signed zone, a resolver that validates it, and Prosody as the
    receiving server. A certificate that the zone names is accepted without any authority, on either
    side; one that it doesn't name is refused even if a trusted authority issued it; unsigned
    records change nothing.
    """
    cases = [
        # The receiving domain, its certificate, the certificate that DNS names, and True if it is
        # reached.
        ("two.example", "own", "its own", True),
        ("two.example", None, "another", False),
        ("two.example", None, "none", True),
        ("two.example", None, "its own, forged", False),
        ("two.unsigned", "own", "its own", False),
        ("two.unsigned", None, "another", True),
    ]
    for domain, fault, named, is_reached in cases:
        async with Network() as network:
            network.zone = Zone("example.")
            async with unbound(network.folder, network.dns, network.zone, "unsigned.") as resolver:
                prosody = network.prosody(domain, "bob", fault=fault, secure="false")
                async with network.rookery("one.example", "alice", dns=resolver, federation="dnssec = true") as one, prosody as two:
                    chain = two.chain if named.startswith("its own") else network.certify(f"other.{domain}")[0]
                    if named != "none":
                        network.names_certificate(domain, two.servers, chain)
                    if named == "its own, forged":
                        network.zone.broken.add((f"_{two.servers}._tcp.{domain}.", "TLSA"))
                    async with Person(one, "alice@one.example", trust=network.authority) as alice:
                        async with Person(two, f"bob@{domain}", believing=True) as bob:
                            if is_reached:
                                for writer, reader, way in ((alice, bob, "out"), (bob, alice, "in")):
                                    writer.write(reader.bare, "hello")
                                    await reader.reads("hello", of=writer.bare)
                                    proof = "DANE" if named == "its own" else "certificate"
                                    listed = one.command("s2s", "list")
                                    assert f"{domain}\tone.example\t{way}\tready\tTLS, {proof}" in listed, listed
                            else:
                                alice.write(bob.bare, "hello")
                                error = await alice.take("message_error", lambda _: True)
                                assert error["error"]["condition"] == "remote-server-timeout", (domain, named, error)
                                await bob.quiet()
                                assert not bob.seen["message"], (domain, named, bob.seen["message"])
                    looked = await asyncio.to_thread(_look, one, domain)
                    assert ("(signed)" in looked) == domain.endswith(".example"), looked
                    assert ("TLSA" in looked) == (domain.endswith(".example") and named in ("its own", "another")), looked


def _look(server, domain):
    """The steps to another server, as operators see them on success and on failure."""
    command = [BINARY, "--config", "rookery.toml", "s2s", domain]
    return subprocess.run(command, cwd=server.folder, text=True, capture_output=True, timeout=60).stdout


async def dns_that_fails_lies_or_takes_its_time_is_told_or_borne():
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            async with Person(one, "alice@one.example", trust=network.authority) as alice:
                async with Person(two, "bob@two.example", trust=network.authority) as bob:
                    network.moods = {"broken.example.": "fails", "silent.example.": "silent", "two.example.": "lies", "one.example.": "slow"}
                    for domain in ("broken.example", "silent.example"):
                        alice.write(f"nobody@{domain}", "hello?")
                    # Stanzas that wait for these servers delay no others, and a forged DNS answer
                    # isn't believed.
                    alice.write(bob.bare, "true")
                    await bob.reads("true", of=alice.bare)
                    for domain in ("broken.example", "silent.example"):
                        error = await alice.take("message_error", lambda it: it["from"].domain == domain)
                        assert error["error"]["condition"] == "remote-server-timeout", error
                    # A room has its own domain, which must be looked up to send the room's reply.
                    room = slixmpp.JID("slow@conference.one.example")
                    await _room(room, alice, bob)


async def the_admin_page_shows_what_waits_and_why_servers_are_not_reached():
    admins = '[modules.administration]\nadmins = ["alice@one.example"]\n'
    async with Network() as network:
        # One server accepts connections and sends nothing; the other port is closed.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            network.is_at("silent.example", silent.getsockname()[1])
            network.is_at("dead.example", free_port())
            async with network.rookery("one.example", "alice", more=admins) as one:
                async with Person(one, "alice@one.example", trust=network.authority) as alice:
                    for number in range(3):
                        alice.write("nobody@silent.example", f"{number}")
                    alice.write("nobody@dead.example", "hello?")
                    await alice.take("message_error", lambda it: it["from"].domain == "dead.example")
                    browser = Browser(one)
                    browser.post("/admin/login", {"name": "alice@one.example", "password": "secret"})
                    # The first server may be given up before the second one's name is resolved.
                    async with asyncio.timeout(PATIENCE):
                        while (rows := _rows(browser.get("/admin/servers").text))["silent.example"]["State"] != "negotiates":
                            await asyncio.sleep(0.05)
                    assert rows["silent.example"]["Waiting"] == "3", rows
                    dead = rows["dead.example"]
                    assert (dead["State"], dead["Waiting"], dead["Ours"], dead["Way"]) == ("failed", "0", "one.example", "out"), rows
                    assert "refused" in dead["Last problem"], rows
                    listed = {line.split("\t")[0]: line for line in one.command("s2s", "list").splitlines()}
                    assert "refused" in listed["dead.example"] and "\t3\t" in listed["silent.example"], listed
                    # A waiting sender is told at once when an operator gives the server up.
                    page = browser.get("/admin/servers")
                    browser.post("/admin/servers", {"csrf": token(page.text), "server": "silent.example"})
                    for _ in range(3):
                        error = await alice.take("message_error", lambda it: it["from"].domain == "silent.example")
                        assert error["error"]["condition"] == "remote-server-timeout", error


async def operators_see_what_happens():
    """Each step of reaching a server is reported; streams are listed, counted in metrics, and
    closed.
    """
    async with Network() as network:
        async with network.rookery("one.example", "alice") as one, network.rookery("two.example", "bob") as two:
            reached = await asyncio.to_thread(one.command, "s2s", "two.example")
            for words in ("SRV: 0 0", "tries     127.0.0.1:", "offered   starttls", "it is for the domain", "EXTERNAL: it accepts", "proven by TLS, certificate"):
                assert words in reached, reached
            for nowhere, cause in (("nowhere.example", "DNS lists no server"), ("10.0.0.1", "an IP address isn't a domain")):
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
                    for server, protocol in (one, "s2s_out"), (two, "s2s_in"):
                        with urllib.request.urlopen(f"http://127.0.0.1:{server.web_port}/metrics") as page:
                            metrics = page.read().decode()
                        resumed = f'rookery_tls_handshakes_total{{protocol="{protocol}",session="resumed"}} 1'
                        assert resumed in metrics, metrics
            # Warnings are expected, such as for names that the network's certificate lacks.
            checked = await asyncio.to_thread(one.command, "check", code=3)
            assert "_xmpp-server._tcp.one.example. SRV" in checked, checked


async def _meet(one, alice, two, bob, network):
    """People on both servers chat, see each other's presence, and meet in rooms of either
    server.
    """
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


async def _share(one, alice, two, bob, network):
    """Contacts get each other's events by capabilities (XEP-0163), large messages and files arrive
    complete, and a room's archive is read from another server (XEP-0313).
    """
    async with Person(one, alice, trust=network.authority) as alice, Person(two, bob, trust=network.authority) as bob:
        for asker, asked in ((alice, bob), (bob, alice)):
            asker.client.send_presence_subscription(pto=asked.bare, ptype="subscribe")
            await asked.presence(asker.bare, "subscribe")
            asked.client.send_presence(pto=asker.bare, ptype="subscribed")
            await asker.presence(asked.jid)
        for person in (alice, bob):
            person.client.register_plugin("xep_0115")
            person.client.register_plugin("xep_0163")
            person.client["xep_0163"].add_interest(_NEWS)
            person.seen.setdefault("pubsub_publish", [])
            person.client.add_event_handler("pubsub_publish", person.seen["pubsub_publish"].append)
            await person.client["xep_0115"].update_caps()
        for writer, reader in ((alice, bob), (bob, alice)):
            for title in ("one", "two"):
                payload = ET.Element(f"{{{_NEWS}}}news")
                payload.text = title
                await writer.client["xep_0060"].publish(None, _NEWS, id=title, payload=payload, timeout=20)
            # The first item arrived as an event or as the last item, depending on when the
            # capabilities were known.
            is_newest = lambda event: event["from"].bare == writer.bare and event["pubsub_event"]["items"]["item"]["id"] == "two"
            event = await reader.take("pubsub_publish", is_newest)
            assert event["pubsub_event"]["items"]["item"]["payload"].text == "two", event
        large = "large " * 16_000
        for writer, reader in ((alice, bob), (bob, alice)):
            writer.write(reader.jid, large)
            assert (await reader.message())["body"] == large
        # A file stays on its sender's server; recipients on other servers fetch it there
        # (XEP-0363).
        alice.client.register_plugin("xep_0363")
        service = f"upload.{alice.jid.domain}"
        slot = await alice.client["xep_0363"].request_slot(service, "picture.png", 5000, "image/png", timeout=20)
        put, get = (urllib.parse.urlparse(slot["http_upload_slot"][way]["url"]).path for way in ("put", "get"))
        picture = bytes(range(250)) * 20
        put = Browser(one).ask("PUT", put, {"Content-Type": "image/png"}, picture)
        assert put.status == 201, put
        alice.write(bob.jid, slot["http_upload_slot"]["get"]["url"])
        link = (await bob.message())["body"]
        assert urllib.parse.urlparse(link).path == get, link
        assert Browser(one).get(urllib.parse.urlparse(link).path).body == picture
        room = slixmpp.JID(f"past@conference.{alice.jid.domain}")
        await _room(room, alice, bob)
        bob.client.register_plugin("xep_0313")
        page = await bob.client["xep_0313"].retrieve(jid=room, timeout=20)
        said = [it["mam_result"]["forwarded"]["stanza"]["body"] for it in page["mam"]["results"]]
        assert {"hello from alice", "hello from bob"} <= set(said), said


def _THREE(one, two, three):
    return (one, "alice@one.example"), (two, "bob@two.example"), (three, "carol@three.example")


def _shown(server, domain):
    """The certificate that the server presents to other servers, in DER."""
    port = next(int(found[1]) for line in server.log.read_text().splitlines() if (found := re.search(r":(\d+) \(other servers, STARTTLS\)", line)))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        header = f"<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' from='two.example' to='{domain}' version='1.0'>"
        raw.sendall(header.encode())
        for end, answer in ((b"</stream:features>", b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"), (b"/>", None)):
            heard = b""
            while not heard.endswith(end):
                heard += raw.recv(4096)
            raw.sendall(answer or b"")
        with context.wrap_socket(raw, server_hostname=domain) as tls:
            return tls.getpeercert(True)


def _rows(page):
    """The table of servers: for each domain, a dictionary keyed by the column heads."""
    table = re.split('<table id="servers"[^>]*>', page)[1].split("</table>")[0]
    heads = [re.sub("<[^>]*>", "", head) for head in table.split("</tr>")[0].split("<th>")[1:]]
    heads = [head.split("<td>")[0] for head in heads]
    rows = [[re.sub("<[^>]*>", "", cell) for cell in re.split("<td[^>]*>", row)[1:]] for row in table.split("<tbody>")[1].split("<tr>")[1:]]
    return {row[0]: dict(zip(heads, row)) for row in rows}


_NEWS = "urn:example:news"
_NUMBERS = itertools.count()


async def _outlive(one, alice, two, bob, network):
    """Each server is stopped and killed during a conversation; senders get errors meanwhile, and
    nothing is lost silently.
    """
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
    """Sends messages until one arrives, since a server that was away isn't tried again at once.
    Each that doesn't arrive comes back as an error.
    """
    for number in _NUMBERS:
        message = writer.client.make_message(mto=reader.bare, mbody=f"{reader.bare}, {number}", mtype="chat")
        # This id is unique, so that no earlier message is taken for the awaited one.
        message["id"] = f"{reader.bare} {number}"
        message.send()
        is_it = lambda it: it["id"] == message["id"]
        arrived = lambda: any(map(is_it, reader.seen["message"]))
        await writer.until(lambda: arrived() or any(map(is_it, writer.seen["message_error"])), message["body"])
        if arrived():
            return
        await asyncio.sleep(0.5)
