"""Rooms: XEP-0045 as slixmpp uses it."""

from typing import NamedTuple

import slixmpp
from slixmpp.exceptions import IqError, PresenceError
from slixmpp.xmlstream import ET

from person import Person
from rookery import Rookery

ROOM = slixmpp.JID("coven@conference.localhost")


async def people_talk_in_a_room():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            entered = await alice.enter("Alice")
            assert 201 in entered.self_presence["muc"]["status_codes"], entered
            await alice.opens()
            entered = await bob.enter("Bob")
            assert {presence["from"].resource for presence in entered.occupants} == {"Alice", "Bob"}, entered
            await alice.until(lambda: "Bob" in alice.muc.get_roster(ROOM))
            for one, nick, other in ((alice, "Alice", bob), (bob, "Bob", alice)):
                one.write(ROOM, f"hello from {nick}", mtype="groupchat")
                for person in (one, other):
                    message = await person.hears(f"hello from {nick}")
                    assert message["from"] == f"{ROOM}/{nick}", message
            bob.write(f"{ROOM}/Alice", "psst")
            message = await alice.take("message", lambda message: message["body"] == "psst")
            assert message["from"] == f"{ROOM}/Bob", message
            await bob.muc.set_self_nick(ROOM, "Robert", timeout=20)
            await alice.until(lambda: "Robert" in alice.muc.get_roster(ROOM))
            bob.muc.leave_muc(ROOM, "Robert")
            await alice.until(lambda: "Robert" not in alice.muc.get_roster(ROOM))


async def who_enters_later_reads_what_was_said():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens()
            for text in ("one", "two", "three"):
                alice.write(ROOM, text, mtype="groupchat")
                await alice.hears(text)
            alice.muc.set_subject(ROOM, "Spells")
            await alice.until(lambda: any(it["subject"] == "Spells" for it in alice.seen["groupchat_subject"]))
            entered = await bob.enter("Bob", maxstanzas=2)
            assert [message["body"] for message in entered.history] == ["two", "three"], entered
            assert entered.subject["subject"] == "Spells", entered


async def an_owner_rules():
    async with Rookery("alice", "bob", "carol") as server:
        people = [_Occupant(server, f"{name}@localhost") for name in ("alice", "bob", "carol")]
        async with people[0] as alice, people[1] as bob, people[2] as carol:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_membersonly": True, "muc#roomconfig_whois": "anyone"})
            assert await _refusal(bob.enter("Bob")) == "registration-required"
            await alice.muc.set_affiliation(ROOM, "member", jid=bob.bare, timeout=20)
            await bob.enter("Bob")
            members = await bob.muc.get_affiliation_list(ROOM, "member", timeout=20)
            assert members == [bob.bare], members
            try:
                await bob.muc.set_role(ROOM, "Alice", "none", timeout=20)
                raise AssertionError("a member kicked the owner")
            except IqError as error:
                assert error.condition == "forbidden", error
            await alice.muc.set_role(ROOM, "Bob", "none", reason="enough", timeout=20)
            await bob.until(lambda: any(307 in it["muc"]["status_codes"] for it in bob.seen["groupchat_presence"]))
            await alice.muc.set_affiliation(ROOM, "outcast", jid=bob.bare, timeout=20)
            assert await _refusal(bob.enter("Bob")) == "forbidden"
            alice.muc.invite(ROOM, carol.bare, "come in")
            invitation = await carol.take("groupchat_invite", lambda _: True)
            assert invitation["from"] == ROOM, invitation
            await carol.enter("Carol")
            await alice.muc.destroy(ROOM, reason="over", timeout=20)
            await carol.until(lambda: any(it["type"] == "unavailable" for it in carol.seen["groupchat_presence"]))


async def a_room_outlives_the_server():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_persistentroom": True, "muc#roomconfig_roomname": "The Cave"})
            alice.muc.set_subject(ROOM, "Spells")
            alice.write(ROOM, "remember me", mtype="groupchat")
            await alice.hears("remember me")
        await server.stop()
        await server.start()
        async with _Occupant(server, "bob@localhost") as bob:
            items = await bob.client["xep_0030"].get_items(jid=ROOM.domain, timeout=20)
            assert (str(ROOM), None, "The Cave") in items["disco_items"]["items"], items
            entered = await bob.enter("Bob")
            assert entered.subject["subject"] == "Spells", entered
            archived = await bob.client["xep_0313"].retrieve(jid=ROOM, rsm={"max": 10}, timeout=20)
            results = archived["mam"]["results"]
            bodies = [result["mam_result"]["forwarded"]["stanza"]["body"] for result in results]
            assert "remember me" in bodies, bodies


async def what_is_taken_back_leaves_a_tombstone():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_persistentroom": True})
            await bob.enter("Bob")
            ids = []
            for text in ("regretted", "potions!"):
                bob.write(ROOM, text, mtype="groupchat")
                ids.append((await alice.hears(text))["stanza_id"]["id"])
            back = bob.client.make_message(ROOM, "taken back", mtype="groupchat")
            back.append(ET.fromstring(f"<retract xmlns='urn:xmpp:message-retract:1' id='{ids[0]}'/>"))
            back.send()
            await alice.hears("taken back")
            retract = "<retract xmlns='urn:xmpp:message-retract:1'/><reason>spam</reason>"
            moderate = f"<moderate xmlns='urn:xmpp:message-moderate:1' id='{ids[1]}'>{retract}</moderate>"
            assert await _refused(bob, moderate) == "forbidden"
            await _asks(alice, moderate)
            # Nobody waits for a tombstone: it comes when the store has it.
            results = await alice.archive()
            while not all(_is_tombstone(results[id]) for id in ids):
                results = await alice.archive()
            for id, text in zip(ids, ("regretted", "potions!")):
                assert text not in str(results[id]), results[id]
            moderated = results[ids[1]].xml.find(".//{urn:xmpp:message-moderate:1}moderated")
            assert moderated.get("by") == f"{ROOM}/Alice", results[ids[1]]


async def occupants_are_told_apart_and_can_ask_whether_they_are_there():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens()
            entered = await bob.enter("Bob")
            pseudonym = entered.self_presence.xml.find("{urn:xmpp:occupant-id:0}occupant-id").get("id")
            bob.write(ROOM, "who am I", mtype="groupchat")
            heard = await alice.hears("who am I")
            assert heard.xml.find("{urn:xmpp:occupant-id:0}occupant-id").get("id") == pseudonym, heard
            await bob.client["xep_0199"].send_ping(f"{ROOM}/Bob", timeout=20)
            bob.muc.leave_muc(ROOM, "Bob")
            await alice.until(lambda: "Bob" not in alice.muc.get_roster(ROOM))
            try:
                await bob.client["xep_0199"].send_ping(f"{ROOM}/Bob", timeout=20)
            except IqError as error:
                assert error.condition == "not-acceptable", error
            else:
                raise AssertionError("who has left is told to be there")
            # Whoever comes back is known by the same pseudonym.
            entered = await bob.enter("Robert")
            assert entered.self_presence.xml.find("{urn:xmpp:occupant-id:0}occupant-id").get("id") == pseudonym


async def voice_is_asked_for_and_given():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_moderatedroom": True})
            await bob.enter("Bob")
            bob.write(ROOM, "may I?", mtype="groupchat")
            error = await bob.take("message_error", lambda _: True)
            assert error["error"]["condition"] == "forbidden", error
            bob.muc.request_voice(ROOM, "participant")
            asked = await alice.take("message_xform", lambda message: message["from"] == ROOM)
            answer = alice.client.make_message(ROOM)
            form = asked["form"]
            form["type"] = "submit"
            form.set_values({"muc#request_allow": True})
            answer.append(form)
            answer.send()
            await bob.until(lambda: bob.muc.get_jid_property(ROOM, "Bob", "role") == "participant")
            bob.write(ROOM, "thank you", mtype="groupchat")
            await alice.hears("thank you")


async def a_room_is_logged_for_people():
    tables = '[modules.rooms]\nlogs = "logs"\n'
    async with Rookery("alice", tables=tables) as server:
        async with _Occupant(server, "alice@localhost") as alice:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_enablelogging": True})
            alice.write(ROOM, "for <posterity>", mtype="groupchat")
            await alice.hears("for <posterity>")
        await server.stop()
        logs = [file for file in server.folder.rglob("*") if file.suffix in (".txt", ".html") and "coven" in str(file)]
        texts = {file.suffix: file.read_text() for file in logs}
        assert "for <posterity>" in texts[".txt"] and "for &lt;posterity&gt;" in texts[".html"], texts


class _Entered(NamedTuple):
    """What somebody got on entering."""

    self_presence: slixmpp.Presence
    subject: slixmpp.Message
    occupants: list
    history: list


class _Occupant(Person):
    """Somebody who can enter the room."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        for plugin in ("xep_0004", "xep_0045", "xep_0313", "xep_0359"):
            self.client.register_plugin(plugin)
        for event in ("groupchat_message", "groupchat_subject", "groupchat_presence", "groupchat_invite", "message_xform"):
            self.seen[event] = []
            self.client.add_event_handler(event, self.seen[event].append)

    @property
    def muc(self):
        return self.client["xep_0045"]

    async def enter(self, nick, **history):
        return _Entered(*await self.muc.join_muc_wait(ROOM, nick, timeout=20, **history))

    async def opens(self, fields=None):
        """Configures the room, which lets others in."""
        form = await self.muc.get_room_config(ROOM, timeout=20)
        form["type"] = "submit"
        form.set_values(fields or {})
        await self.muc.set_room_config(ROOM, form, timeout=20)

    async def archive(self):
        """What the room has kept, by ids."""
        page = await self.client["xep_0313"].retrieve(jid=ROOM, rsm={"max": 50}, timeout=20)
        return {result["mam_result"]["id"]: result["mam_result"]["forwarded"]["stanza"] for result in page["mam"]["results"]}

    async def hears(self, text):
        """A message to all with this text; those before it are passed over."""
        return await self.take("groupchat_message", lambda message: message["body"] == text)


async def _refusal(entering):
    """The condition of the error that somebody gets instead of entering."""
    try:
        await entering
    except PresenceError as error:
        return error.condition
    raise AssertionError("nobody was refused")


def _is_tombstone(message):
    return message.xml.find("{urn:xmpp:message-retract:1}retracted") is not None


async def _asks(person, payload):
    iq = person.client.make_iq_set(ito=ROOM)
    iq.append(ET.fromstring(payload))
    return await iq.send(timeout=20)


async def _refused(person, payload):
    try:
        await _asks(person, payload)
    except IqError as error:
        return error.condition
    raise AssertionError("nobody was refused")
