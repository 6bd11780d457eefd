"""Several domains in one server."""

from person import Person, Refused, befriend
from rookery import Rookery

TWO = 'domains = ["localhost", "rook.example"]'


async def contacts_cross_from_one_to_the_other():
    async with Rookery("alice", "alice@rook.example", top=TWO) as server:
        here, there = Person(server, "alice@localhost"), Person(server, "alice@rook.example", direct=True)
        async with here, there:
            await befriend(here, there)
            here.write(there.bare, "from here")
            await there.reads("from here", of="alice@localhost")
            there.write(here.bare, "from there")
            await here.reads("from there", of="alice@rook.example")
        async with Person(server, "alice@localhost", managed=True) as here:
            assert here.item("alice@rook.example")["subscription"] == "both"
            here.write("alice@rook.example", "waiting")
            await here.acknowledged()
        async with Person(server, "alice@rook.example") as there:
            assert (await there.reads("waiting", of="alice@localhost"))["delay"]["from"] == "rook.example"


async def accounts_belong_to_their_domain():
    async with Rookery("alice", "bob@rook.example", top=TWO) as server:
        for stranger in ("alice@rook.example", "bob@localhost"):
            try:
                async with Person(server, stranger, mechanism="SCRAM-SHA-256"):
                    raise AssertionError(f"{stranger} gets in")
            except Refused as why:
                assert str(why) == "not-authorized", why


async def a_domain_that_is_not_served_is_told():
    async with Rookery("alice") as server:
        try:
            async with Person(server, "alice@elsewhere.example"):
                raise AssertionError("a domain that isn't served lets somebody in")
        except Refused as why:
            assert "host-unknown" in str(why), why


async def modules_are_switched_per_domain():
    tables = '[domain."rook.example".modules.register]\nenabled = false'
    async with Rookery("alice", "alice@rook.example", top=TWO, tables=tables) as server:
        for domain, registers in (("localhost", True), ("rook.example", False)):
            async with Person(server, f"alice@{domain}") as alice:
                info = await alice.client["xep_0030"].get_info(jid=domain)
                assert ("jabber:iq:register" in info["disco_info"]["features"]) == registers, info
