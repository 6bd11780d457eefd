"""What users notice of what operators do."""

import os
import signal
import subprocess

from person import Person, Refused, befriend
from rookery import Rookery

OWN = '[tls]\ncertificate = "own.pem"\nkey = "own.key"\n'


async def a_new_certificate_is_for_new_connections():
    async with Rookery("alice", "bob") as server:
        _make_certificate(server.folder)
        async with Person(server, "alice@localhost") as alice:
            server.configure(tables=OWN)
            await server.reload()
            new = server.folder / "own.pem"
            async with Person(server, "bob@localhost", trust=new) as bob:
                assert bob.certificate() == new.read_text() and alice.certificate() != bob.certificate()
                alice.write(bob.bare, "still here")
                await bob.reads("still here", of=alice.bare)
            async with Person(server, "bob@localhost", trust=new, direct=True) as bob:
                assert bob.certificate() == new.read_text()
            try:
                async with Person(server, "bob@localhost"):
                    raise AssertionError("the old certificate is still shown")
            except Refused as why:
                assert "CERTIFICATE_VERIFY_FAILED" in str(why), why
            assert not alice.seen["disconnected"]


async def a_certificate_that_is_renewed_is_taken_over_unasked():
    async with Rookery("alice") as server:
        _make_certificate(server.folder)
        server.configure(tables=OWN)
        await server.reload()
        new = server.folder / "own.pem"
        before = new.read_text()
        # First one that can't be used: what there is stays.
        at = server.log.stat().st_size
        new.write_text("half")
        await server.says("the certificates stay as they were", at)
        new.write_text(before)
        await server.says("reloaded certificates", at)
        at = server.log.stat().st_size
        _make_certificate(server.folder)
        await server.says("reloaded certificates", at)
        async with Person(server, "alice@localhost", trust=new) as alice:
            assert alice.certificate() == new.read_text() != before


async def a_wrong_configuration_changes_nothing():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            server.configure(tables="[tls]\ncertificate = 'missing.pem'\nkey = 'missing.key'")
            server.send(signal.SIGHUP)
            await server.says("nothing was changed")
            await alice.quiet()
        async with Person(server, "alice@localhost"):
            pass


async def the_level_of_the_log_changes_at_once():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            for level, failures in (("info", 1), ("info,rookery_shard=off", 1), ("info", 2)):
                server.configure(tables=f'[log]\nlevel = "{level}"')
                await server.reload()
                try:
                    async with Person(server, "alice@localhost", "wrong", mechanism="SCRAM-SHA-256"):
                        raise AssertionError("a wrong password is right")
                except Refused:
                    assert server.log.read_text().count("a login failed") == failures, (level, server.log.read_text())
            assert "restart the server" not in server.log.read_text()
            await alice.quiet()


async def a_stop_is_announced():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost", direct=True) as bob:
            assert await server.stop(signal.SIGTERM) == 0
            for person in (alice, bob):
                error = await person.take("stream_error", lambda _: True)
                assert error["condition"] == "system-shutdown", error
                await person.take("disconnected", lambda _: True)
                person.client.cancel_connection_attempt()


async def what_was_acknowledged_survives_a_kill():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost", managed=True) as alice:
            async with Person(server, "bob@localhost") as bob:
                await befriend(alice, bob)
            await alice.presence(bob.bare, "unavailable")
            await alice.client.update_roster(bob.bare, name="Robert", groups=["Friends"])
            for number in range(50):
                alice.write("bob@localhost", f"number {number}")
            await alice.acknowledged()
            assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
        await server.start()
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            item = alice.item("bob@localhost")
            assert (item["name"], item["groups"], item["subscription"]) == ("Robert", ["Friends"], "both")
            for number in range(50):
                assert (await bob.reads(f"number {number}", of="alice@localhost"))["delay"]["stamp"]
            await bob.quiet()
            assert not bob.seen["message"]
            await alice.presence(bob.jid)
            for person in alice, bob:
                person.client.register_plugin("xep_0313")
                page = await person.client["xep_0313"].retrieve(rsm={"max": 100})
                assert len(page["mam"]["results"]) == 50, page


async def new_accounts_need_no_restart():
    async with Rookery() as server:
        server.command("user", "add", "carol@localhost", "--password-stdin", said="secret\n")
        async with Person(server, "carol@localhost"):
            pass


def _make_certificate(folder):
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "own.key", "-out", folder / "own.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True, timeout=60)
    os.chmod(folder / "own.key", 0o600)
