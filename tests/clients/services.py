"""Clients query the server: version, time and the like."""

import datetime

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from person import Person, befriend
from rookery import Rookery


async def the_server_tells_what_it_can():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            info = await alice.client["xep_0030"].get_info(jid="localhost")
            assert ("server", "im") in {identity[:2] for identity in info["disco_info"]["identities"]}, info
            for feature in ("http://jabber.org/protocol/disco#info", "urn:xmpp:ping", "urn:xmpp:time", "jabber:iq:version", "msgoffline"):
                assert feature in info["disco_info"]["features"], (feature, info)
            assert "jabber:iq:register" in info["disco_info"]["features"]
            await alice.client["xep_0030"].get_items(jid="localhost")
            account = await alice.client["xep_0030"].get_info(jid=alice.bare)
            assert ("account", "registered") in {identity[:2] for identity in account["disco_info"]["identities"]}, account


async def it_answers_pings():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            await alice.client["xep_0199"].send_ping("localhost", timeout=20)
            await alice.client["xep_0199"].send_ping(alice.bare, timeout=20)


async def it_tells_version_and_time():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            version = (await alice.client["xep_0092"].get_version("localhost"))["software_version"]
            assert version["name"] == "Rookery" and version["version"], version
            answer = await alice.client["xep_0202"].get_entity_time("localhost")
            # This reads the text itself, since slixmpp 1.17 appends a second Z before it parses it.
            told = datetime.datetime.fromisoformat(answer.xml.findtext(".//{urn:xmpp:time}utc"))
            assert abs(told - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=1), told


async def what_it_does_not_know_is_refused():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            iq = alice.client.make_iq_get(queryxmlns="urn:example:unknown", ito="localhost")
            try:
                await iq.send(timeout=20)
            except IqError as error:
                assert error.condition == "service-unavailable", error
            else:
                raise AssertionError("the server answers what nobody has invented")


async def clients_ask_one_another():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            version = (await alice.client["xep_0092"].get_version(bob.jid))["software_version"]
            assert "Slixmpp" in version["name"], version
            await bob.client["xep_0199"].send_ping(alice.jid, timeout=20)
            try:
                await alice.client["xep_0092"].get_version("bob@localhost/nowhere")
            except IqError as error:
                assert error.condition == "service-unavailable", error
            else:
                raise AssertionError("a client that isn't there answers")


async def turn_servers_are_listed_with_credentials():
    tables = '[modules.external_services]\nservices = ["turn:turn.localhost:3478?transport=udp"]\nsecret = "pencil"\n'
    async with Rookery("alice", tables=tables) as server:
        async with Person(server, "alice@localhost") as alice:
            answer = await _asks(alice, "<services xmlns='urn:xmpp:extdisco:2'/>")
            (service,) = answer.iter("{urn:xmpp:extdisco:2}service")
            assert (service.get("type"), service.get("host"), service.get("port")) == ("turn", "turn.localhost", "3478"), service.attrib
            assert service.get("username") and service.get("password") and service.get("expires"), service.attrib


async def a_client_learns_its_address():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            answer = await _asks(alice, "<address xmlns='urn:xmpp:sic:1'/>")
            assert answer.findtext(".//{urn:xmpp:sic:1}ip") == "127.0.0.1", answer


async def _asks(person, payload):
    iq = person.client.make_iq_get(ito="localhost")
    iq.append(ET.fromstring(payload))
    return (await iq.send(timeout=20)).xml
