"""Reads devices in the chat: nodes of data.DOMAIN with slixmpp, and alarms in a room. The
front-ends are simulated.
"""

import contextlib

import slixmpp
from slixmpp.exceptions import IqError

from person import Person
from rookery import Rookery

SERVICE = "data.localhost"
ROOM = slixmpp.JID("operators@conference.localhost")
READING = "{urn:rookery:reading:0}"
DPM = """
[dpm]
enabled = true
demo = true
listen = "127.0.0.1:0"
alarms = [{ room = "operators@conference.localhost", devices = ["G:WATER", "M:OUTTMP"] }]
[modules.data]
enabled = true
"""


async def devices_are_nodes():
    async with Rookery("alice", "bob", tables=DPM) as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            items = await alice.client["xep_0030"].get_items(jid="localhost", timeout=20)
            assert SERVICE in {item[0] for item in items["disco_items"]["items"]}, items
            nodes = await alice.client["xep_0030"].get_items(jid=SERVICE, timeout=20)
            named = {item[1]: item[2] for item in nodes["disco_items"]["items"]}
            assert named["M:OUTTMP"] == "Outdoor temperature", nodes
            info = await alice.client["xep_0030"].get_info(jid=SERVICE, node="M:OUTTMP@p,500", timeout=20)
            assert ("pubsub", "leaf") in {identity[:2] for identity in info["disco_info"]["identities"]}, info
            assert "DegF" in str(info), info

            one, other = _pubsub(alice), _pubsub(bob)
            for person, node in ((one, "M:OUTTMP@p,500"), (other, "M:OUTTMP@p,500"), (other, "B:ARRAY[0:3]"), (other, "G:TEXT")):
                await person.subscribe(SERVICE, node, timeout=20)
            for person in (alice, bob):
                reading = await _reading(person, "M:OUTTMP@p,500")
                assert (reading.get("device"), reading.get("units")) == ("M:OUTTMP", "DegF"), reading.attrib
                assert 40 < float(reading.findtext(f"{READING}number")) < 200, reading
                assert reading.get("time").endswith("Z") and reading.get("status") is None, reading.attrib
            assert len((await _reading(bob, "B:ARRAY[0:3]")).findall(f"{READING}number")) == 4
            assert (await _reading(bob, "G:TEXT")).findtext(f"{READING}text") == "HELLO"
            # Readings arrive periodically, and nobody gets them after unsubscribing.
            await _reading(alice, "M:OUTTMP@p,500")
            own = await one.get_subscriptions(SERVICE, timeout=20)
            assert [it["node"] for it in own["pubsub"]["subscriptions"]] == ["M:OUTTMP@p,500"], own
            await one.unsubscribe(SERVICE, "M:OUTTMP@p,500", timeout=20)
            alice.seen["pubsub_publish"].clear()
            await _reading(bob, "M:OUTTMP@p,500")
            await _reading(bob, "M:OUTTMP@p,500")
            assert not alice.seen["pubsub_publish"]


async def what_is_no_device_is_not_found():
    async with Rookery("alice", tables=DPM) as server:
        async with Person(server, "alice@localhost") as alice:
            pubsub = _pubsub(alice)
            for node in ("M:NOBODY", "musings", "M:OUTTMP@X", "M:OUTTMP.CONTROL"):
                assert await _refused(pubsub.subscribe(SERVICE, node, timeout=20)) == "item-not-found", node
                assert await _refused(alice.client["xep_0030"].get_info(jid=SERVICE, node=node, timeout=20)) == "item-not-found", node
            assert await _refused(pubsub.publish(SERVICE, "M:OUTTMP", timeout=20)) == "forbidden"
            assert await _refused(pubsub.create_node(SERVICE, "M:MINE", timeout=20)) == "feature-not-implemented"
            # A silent device is still a node; its readings say that it is silent.
            await pubsub.subscribe(SERVICE, "G:SILENT@p,200", timeout=20)
            reading = await _reading(alice, "G:SILENT@p,200")
            assert (reading.get("facility"), reading.get("error"), len(reading)) == ("1", "-49", 0), reading.attrib


async def subscriptions_outlive_the_server():
    async with Rookery("alice", tables=DPM) as server:
        async with Person(server, "alice@localhost") as alice:
            await _pubsub(alice).subscribe(SERVICE, "G:COUNTR@p,200", timeout=20)
            await _reading(alice, "G:COUNTR@p,200")
        assert await server.stop() == 0
        await server.start()
        alice = Person(server, "alice@localhost")
        _pubsub(alice)
        async with alice:
            assert float((await _reading(alice, "G:COUNTR@p,200")).findtext(f"{READING}number")) > 0


async def a_room_hears_of_alarms():
    async with Rookery("alice", tables=DPM) as server:
        async with Person(server, "alice@localhost") as alice:
            alice.client.register_plugin("xep_0045")
            alice.seen["groupchat_message"] = []
            alice.client.add_event_handler("groupchat_message", alice.seen["groupchat_message"].append)
            await alice.client["xep_0045"].join_muc_wait(ROOM, "Alice", timeout=20)
            # If an alarm came first, it has created the room and its sender owns it.
            with contextlib.suppress(IqError):
                await alice.client["xep_0045"].set_room_config(ROOM, alice.client["xep_0004"].make_form(ftype="submit"), timeout=20)
            for text in ("G:WATER (Temperature of the cooling water): TOO WARM", "G:WATER (Temperature of the cooling water) is good again"):
                message = await alice.take("groupchat_message", lambda message: message["body"].startswith(text))
                assert message["from"].bare == ROOM.bare and message["from"].resource.startswith("Alarms"), message


def _pubsub(person):
    person.client.register_plugin("xep_0060")
    person.client.register_plugin("xep_0059")
    if "pubsub_publish" not in person.seen:
        person.seen["pubsub_publish"] = []
        person.client.add_event_handler("pubsub_publish", person.seen["pubsub_publish"].append)
    return person.client["xep_0060"]


async def _reading(person, node):
    """The next reading of a node."""
    event = await person.take("pubsub_publish", lambda it: it["pubsub_event"]["items"]["node"] == node)
    assert event["from"] == SERVICE and event["type"] == "headline", event
    reading = event["pubsub_event"]["items"]["item"]["payload"]
    assert reading.tag == f"{READING}reading", event
    return reading


async def _refused(request):
    try:
        answer = await request
    except IqError as error:
        return error.condition
    raise AssertionError(f"not refused: {answer}")
