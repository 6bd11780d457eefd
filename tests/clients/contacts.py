"""Contact lists, subscriptions and presence."""

from person import Person, befriend
from rookery import Rookery


async def a_contact_is_asked_and_approves():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost/desk") as alice, Person(server, "bob@localhost/phone") as bob:
            alice.client.send_presence_subscription(pto="bob@localhost", ptype="subscribe")
            await bob.presence("alice@localhost", "subscribe")
            assert alice.item("bob@localhost")["subscription"] == "none" and alice.item("bob@localhost")["pending_out"]

            bob.client.send_presence_subscription(pto="alice@localhost", ptype="subscribed")
            await alice.presence("bob@localhost", "subscribed")
            await alice.presence("bob@localhost/phone")
            await alice.until(lambda: alice.item("bob@localhost")["subscription"] == "to")
            await bob.until(lambda: bob.item("alice@localhost")["subscription"] == "from")

            bob.client.send_presence_subscription(pto="alice@localhost", ptype="subscribe")
            await alice.presence("bob@localhost", "subscribe")
            alice.client.send_presence_subscription(pto="bob@localhost", ptype="subscribed")
            await bob.presence("alice@localhost/desk")
            await alice.until(lambda: alice.item("bob@localhost")["subscription"] == "both")
            await bob.until(lambda: bob.item("alice@localhost")["subscription"] == "both")


async def a_contact_may_refuse_and_cancel():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            alice.client.send_presence_subscription(pto=bob.bare, ptype="subscribe")
            await bob.presence(alice.bare, "subscribe")
            bob.client.send_presence_subscription(pto=alice.bare, ptype="unsubscribed")
            await alice.presence(bob.bare, "unsubscribed")
            await alice.until(lambda: not alice.item(bob.bare)["pending_out"])

            await befriend(alice, bob)
            bob.client.send_presence_subscription(pto=alice.bare, ptype="unsubscribed")
            await alice.presence(bob.bare, "unavailable")
            await alice.presence(bob.bare, "unsubscribed")
            await alice.until(lambda: alice.item(bob.bare)["subscription"] == "from")


async def a_request_waits_for_who_is_away():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice:
            alice.client.send_presence_subscription(pto="bob@localhost", ptype="subscribe", pfrom=alice.bare)
            await alice.until(lambda: alice.item("bob@localhost")["pending_out"])
            await alice.quiet()
            for _ in range(2):
                async with Person(server, "bob@localhost") as bob:
                    await bob.presence(alice.bare, "subscribe")
            async with Person(server, "bob@localhost") as bob:
                await bob.presence(alice.bare, "subscribe")
                bob.client.send_presence_subscription(pto=alice.bare, ptype="subscribed")
                await alice.presence(bob.jid)


async def presence_comes_and_goes():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice:
            async with Person(server, "bob@localhost/phone") as bob:
                await befriend(alice, bob)
                bob.client.send_presence(pshow="dnd", pstatus="im Gespräch ☎", ppriority=7)
                seen = await alice.presence("bob@localhost/phone", "dnd")
                assert (seen["status"], seen["priority"]) == ("im Gespräch ☎", 7), seen

                async with Person(server, "bob@localhost/desk"):
                    await alice.presence("bob@localhost/desk")
                    await bob.presence("bob@localhost/desk")
                await alice.presence("bob@localhost/desk", "unavailable")

                bob.client.send_presence(ptype="unavailable", pstatus="bye")
                assert (await alice.presence("bob@localhost/phone", "unavailable"))["status"] == "bye"
                bob.client.send_presence()
                await alice.presence("bob@localhost/phone")
            await alice.presence("bob@localhost/phone", "unavailable")
            async with Person(server, "bob@localhost") as bob:
                # A client that logs in later gets the presence of contacts who are online.
                await bob.presence(alice.jid)


async def a_connection_that_breaks_is_told_as_leaving():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            address = bob.jid.full
            bob.client.transport.abort()
            await alice.presence(address, "unavailable")


async def strangers_see_nothing():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            bob.client.send_presence(pshow="away")
            await bob.quiet()
            await alice.quiet()
            assert not [it for it in alice.seen["presence"] if it["from"].bare == bob.bare], alice.seen["presence"]


async def names_and_groups_are_kept_and_pushed():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost/desk") as desk, Person(server, "alice@localhost/phone") as phone:
            await desk.client.update_roster("bob@localhost", name="Bob <der & die> 🐦", groups=["Freunde", "Büro"])
            await phone.until(lambda: phone.item("bob@localhost")["name"] == "Bob <der & die> 🐦")
            assert sorted(phone.item("bob@localhost")["groups"]) == ["Büro", "Freunde"]
            await phone.client.update_roster("bob@localhost", name="Robert", groups=[])
            await desk.until(lambda: desk.item("bob@localhost")["name"] == "Robert")
            assert desk.item("bob@localhost")["groups"] == []
        async with Person(server, "alice@localhost") as alice:
            assert alice.item("bob@localhost")["name"] == "Robert"
            await alice.client.del_roster_item("bob@localhost")
            await alice.quiet()
        async with Person(server, "alice@localhost") as alice:
            assert "bob@localhost" not in alice.client.client_roster


async def a_removed_contact_sees_nothing_any_more():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            await alice.client.del_roster_item(bob.bare)
            await bob.presence(alice.bare, "unavailable")
            await bob.until(lambda: bob.item(alice.bare)["subscription"] == "none")
            assert bob.bare not in alice.client.client_roster or alice.item(bob.bare)["subscription"] in ("none", "remove")


async def groups_of_the_operator_are_contacts():
    tables = '[modules.shared_roster]\ngroups = ["Everybody: @all@"]\n'
    async with Rookery("alice", "bob", tables=tables) as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            for one, other in ((alice, bob), (bob, alice)):
                await one.until(lambda: one.item(other.bare)["subscription"] == "both")
                assert list(one.item(other.bare)["groups"]) == ["Everybody"], one.item(other.bare)
            await alice.presence(bob.bare)
