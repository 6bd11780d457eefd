"""Uses the HTTP API, by which programs do what operators do."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import quote

from browser import Browser
from person import Person, is_refused
from rookery import Rookery

ALL = (
    "users:read,users:write,users:export,sessions:read,sessions:write,rooms:read,rooms:write,messages:write,announcements:read,"
    "announcements:write,invitations:write,domains:read,statistics:read,log:read,reports:read,reports:write"
)
STAYS = (
    "<iq type='set' id='c' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'>"
    "<field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>"
    "<field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>"
)


async def who_has_no_token_learns_nothing():
    async with Rookery("alice") as server:
        for headers in ({}, {"Authorization": "Bearer nothing"}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}):
            for path in ("/statistics", "/users/alice%40localhost", "/users/nobody%40localhost"):
                status, answer, body = _ask(server, "GET", path, headers=headers)
                assert status == 401 and answer["www-authenticate"].startswith("Bearer "), (status, answer)
                assert answer["content-type"] == "application/problem+json", answer
                assert json.loads(body)["status"] == 401, body
        status, _, body = _ask(server, "GET", "/openapi.json")
        assert status == 200 and json.loads(body)["openapi"] == "3.1.0"
        assert _ask(server, "GET", "/nothing")[0] == 404
        status, headers, _ = _ask(server, "PUT", "/statistics")
        assert status == 405 and headers["allow"] == "GET", headers


async def a_token_is_good_for_its_scopes_and_its_domain():
    async with Rookery("alice", "bob@example.org", top='domains = ["localhost", "example.org"]') as server:
        secret = _token(server, "reader", "users:read", "--domain", "localhost")
        assert _ask(server, "GET", "/users/alice%40localhost", secret)[0] == 200
        for method, path, body in (
            ("GET", "/statistics", None),
            ("DELETE", "/users/alice%40localhost", None),
            ("POST", "/domains/localhost/users", {"name": "eve", "password": "geheim12"}),
        ):
            status, headers, _ = _ask(server, method, path, secret, body)
            assert status == 403 and "insufficient_scope" in headers["www-authenticate"], (method, path, status)
        # The token reveals nothing about another domain, not even which accounts exist.
        for other in ("bob%40example.org", "nobody%40example.org"):
            status, _, body = _ask(server, "GET", f"/users/{other}", secret)
            assert status == 403 and json.loads(body)["type"] == "urn:rookery:problem:other-domain", body
        assert _ask(server, "GET", "/domains/example.org/users", secret)[0] == 403
        assert _ask(server, "GET", "/users/alice%40elsewhere.example", secret)[0] == 404
        kept = server.command("token", "list")
        assert "reader" in kept and "users:read" in kept and secret not in kept, kept
        database = (server.folder / "rookery-data/rookery.db").read_bytes()
        wal = server.folder / "rookery-data/rookery.db-wal"
        assert secret.encode() not in database + (wal.read_bytes() if wal.exists() else b""), "the secret itself is kept"
        server.command("token", "revoke", "reader")
        assert _ask(server, "GET", "/users/alice%40localhost", secret)[0] == 401


async def accounts_are_made_changed_and_removed():
    async with Rookery("alice") as server:
        secret = _token(server, "all", ALL)
        status, headers, body = _ask(server, "POST", "/domains/localhost/users", secret, {"name": "Bob", "password": "geheim12"})
        assert status == 201 and headers["location"] == "/api/v1/users/bob%40localhost", (status, headers, body)
        assert json.loads(body) == {"jid": "bob@localhost", "disabled": False, "last_seen": None}
        assert _ask(server, "POST", "/domains/localhost/users", secret, {"name": "bob", "password": "geheim12"})[0] == 409
        async with Person(server, "bob@localhost", "geheim12") as bob:
            user = _json(server, "GET", "/users/bob%40localhost", secret)
            [session] = user["sessions"]
            assert session["address"] == "127.0.0.1" and session["jid"].startswith("bob@localhost/"), user
            [listed] = _json(server, "GET", "/domains/localhost/sessions", secret)["items"]
            assert listed["jid"] == session["jid"] and listed["idle_seconds"] >= 0, listed
            users = lambda query: [user["jid"] for user in _json(server, "GET", f"/domains/localhost/users?{query}", secret)["items"]]
            assert users("only=online") == ["bob@localhost"] and users("only=never") == ["alice@localhost", "bob@localhost"]
            assert users("order=name") == users("") == ["alice@localhost", "bob@localhost"]
            part = _json(server, "GET", "/domains/localhost/users?order=name&limit=1", secret)
            assert users(f"order=name&limit=1&after={part['next']}") == ["bob@localhost"], part
            assert _ask(server, "GET", "/domains/localhost/users?order=size", secret)[0] == 400
            assert _ask(server, "DELETE", "/users/bob%40localhost/sessions/nothing", secret)[0] == 404
            path = f"/users/bob%40localhost/sessions/{quote(session['resource'], safe='')}"
            assert _ask(server, "DELETE", path, secret)[0] == 204
            await bob.until(lambda: bob.seen["disconnected"])
        assert _ask(server, "PATCH", "/users/bob%40localhost", secret, {"disabled": True})[0] == 204
        await is_refused(server, "bob@localhost", "geheim12", "account-disabled")
        changes = {"disabled": False, "password": "nochgeheimer"}
        assert _ask(server, "PATCH", "/users/bob%40localhost", secret, changes)[0] == 204
        async with Person(server, "bob@localhost", "nochgeheimer") as bob:
            assert _json(server, "DELETE", "/users/bob%40localhost/sessions", secret) == {"ended": 1}
            await bob.until(lambda: bob.seen["disconnected"])
        status, _, document = _ask(server, "GET", "/users/bob%40localhost/export", secret)
        assert status == 200 and ElementTree.fromstring(document)[0][0].get("name") == "bob", document
        assert _ask(server, "DELETE", "/users/bob%40localhost", secret)[0] == 204
        await is_refused(server, "bob@localhost", "nochgeheimer", "not-authorized")
        for method in ("GET", "DELETE"):
            assert _ask(server, method, "/users/bob%40localhost", secret)[0] == 404
        acts = [entry["act"] for entry in _json(server, "GET", "/log", secret)["items"]]
        assert acts[0] == "deleted an account: bob@localhost" and "created an account: bob@localhost" in acts, acts


async def an_archive_is_emptied():
    async with Rookery("alice", "bob") as server:
        secret, reader = _token(server, "all", ALL), _token(server, "reader", "users:read")
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            for person in (alice, bob):
                for plugin in ("xep_0059", "xep_0297", "xep_0313"):
                    person.client.register_plugin(plugin)
            alice.write(bob.bare, "forget me")
            await bob.reads("forget me", of=alice.bare)
            path = "/users/bob%40localhost/archive"
            assert _ask(server, "DELETE", path, reader)[0] == 403
            assert _ask(server, "DELETE", path, secret)[0] == 204
            for person, count in ((alice, 1), (bob, 0)):
                page = await person.client["xep_0313"].retrieve(timeout=20)
                assert len(page["mam"]["results"]) == count, page
        assert _ask(server, "DELETE", "/users/nobody%40localhost/archive", secret)[0] == 404
        [entry] = [it for it in _json(server, "GET", "/log", secret)["items"] if "archive" in it["act"]]
        assert entry["act"] == "emptied an archive: bob@localhost", entry


async def lists_come_in_parts():
    async with Rookery(*(f"user{number:02}" for number in range(7)), "other") as server:
        secret = _token(server, "reader", "users:read")
        found, after = [], ""
        while True:
            page = _json(server, "GET", f"/domains/localhost/users?limit=3&search=user{after}", secret)
            assert len(page["items"]) <= 3
            found += [user["jid"] for user in page["items"]]
            if not page["next"]:
                break
            after = "&after=" + quote(page["next"], safe="")
        assert found == [f"user{number:02}@localhost" for number in range(7)], found
        for query in ("limit=0", "limit=501", "limit=1000000000000000000000", "limit=x", "limit=1&limit=2", "more=1", "limit=%zz"):
            status, _, body = _ask(server, "GET", f"/domains/localhost/users?{query}", secret)
            assert status == 400 and json.loads(body)["type"] == "urn:rookery:problem:bad-request", (query, status, body)
        assert _ask(server, "GET", "/domains/localhost/users?after=%00", secret)[0] == 422


async def a_domain_speaks():
    async with Rookery("alice", "bob") as server, Person(server, "alice@localhost") as alice:
        secret = _token(server, "speaker", ALL)
        send = {"to": "alice@localhost", "body": "Please <call> us", "subject": "Hello"}
        assert _ask(server, "POST", "/domains/localhost/messages", secret, send)[0] == 202
        await alice.reads("Please <call> us", of="localhost")
        announcement = {"to": "all", "body": "Back at noon"}
        assert _ask(server, "POST", "/domains/localhost/announcements", secret, announcement)[0] == 202
        await alice.reads("Back at noon", of="localhost")
        assert _ask(server, "GET", "/domains/localhost/motd", secret)[0] == 404
        assert _ask(server, "PUT", "/domains/localhost/motd", secret, {"body": "Good morning"})[0] == 204
        await alice.reads("Good morning", of="localhost")
        assert _json(server, "GET", "/domains/localhost/motd", secret) == {"subject": None, "body": "Good morning"}
        assert _ask(server, "DELETE", "/domains/localhost/motd", secret)[0] == 204
        status, _, body = _ask(server, "POST", "/domains/localhost/invitations", secret, {"name": "eve", "days": 2})
        assert status == 201 and json.loads(body)["uri"].startswith("xmpp:eve@localhost?register;preauth="), body
        status, _, body = _ask(server, "POST", "/users/bob%40localhost/password-link", secret, {})
        assert status == 201 and json.loads(body)["uri"].startswith("xmpp:bob@localhost?register;preauth="), body
        statistics = _json(server, "GET", "/statistics", secret)
        assert statistics["sessions"] == 1 and statistics["deliveries"] > 2, statistics
        domain = _json(server, "GET", "/domains/localhost", secret)
        assert domain["users"] == 2 and any(module["name"] == "rooms" and module["enabled"] for module in domain["modules"])


async def rooms_are_listed_and_destroyed():
    async with Rookery("alice") as server, Person(server, "alice@localhost") as alice:
        secret = _token(server, "all", ALL)
        assert _json(server, "GET", "/domains/localhost/rooms", secret) == {"items": [], "next": None}
        for name in ("garden", "kitchen"):
            alice.client.send_raw(f"<presence to='{name}@conference.localhost/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
            await alice.presence(f"{name}@conference.localhost/Alice")
        page = _json(server, "GET", "/domains/localhost/rooms?limit=1", secret)
        assert page["next"] == "garden@conference.localhost" and len(page["items"]) == 1, page
        page = _json(server, "GET", f"/domains/localhost/rooms?after={quote(page['next'])}", secret)
        assert [room["jid"] for room in page["items"]] == ["kitchen@conference.localhost"] and page["next"] is None, page
        assert page["items"][0]["occupants"] == 1, page
        room = _json(server, "GET", "/rooms/garden%40conference.localhost", secret)
        [inside] = room["occupants"]
        assert (inside["nick"], inside["affiliation"]) == ("Alice", "owner") and inside["sessions"][0].startswith("alice@localhost/"), room
        assert _ask(server, "DELETE", "/rooms/garden%40conference.localhost?reason=Winter", secret)[0] == 204
        told = await alice.presence("garden@conference.localhost/Alice", "unavailable")
        assert "Winter" in str(told), told
        for method in ("GET", "DELETE"):
            assert _ask(server, method, "/rooms/garden%40conference.localhost", secret)[0] == 404
        assert _ask(server, "GET", "/rooms/alice%40localhost", secret)[0] == 404


async def rooms_that_are_stored_are_there():
    async with Rookery("alice") as server:
        secret, room = _token(server, "all", ALL), "garden@conference.localhost"
        async with Person(server, "alice@localhost") as alice:
            alice.client.send_raw(f"<presence to='{room}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
            await alice.presence(f"{room}/Alice")
            alice.client.send_raw(STAYS.format(room=room))
            while not _json(server, "GET", "/domains/localhost/rooms", secret)["items"][0]["persistent"]:
                await asyncio.sleep(0.05)
        assert await server.stop() == 0
        await server.start()
        # Nothing has used the room since the start, so it is read from the store.
        shown = _json(server, "GET", f"/rooms/{quote(room)}", secret)
        assert shown["persistent"] and shown["occupants"] == [], shown
        [listed] = _json(server, "GET", "/domains/localhost/rooms", secret)["items"]
        assert (listed["jid"], listed["occupants"], listed["last_message"]) == (room, 0, None), listed
        assert _ask(server, "DELETE", f"/rooms/{quote(room)}", secret)[0] == 204
        assert _json(server, "GET", "/domains/localhost/rooms", secret)["items"] == []
        assert await server.stop() == 0
        await server.start()
        assert _ask(server, "GET", f"/rooms/{quote(room)}", secret)[0] == 404


async def rooms_are_made_and_changed():
    async with Rookery("alice") as server:
        secret = _token(server, "all", ALL)
        new = {"room": "Garden", "owner": "alice@localhost", "name": "The garden", "public": True}
        status, headers, body = _ask(server, "POST", "/domains/localhost/rooms", secret, new)
        assert (status, headers["location"]) == (201, "/api/v1/rooms/garden%40conference.localhost"), (status, headers, body)
        assert _ask(server, "POST", "/domains/localhost/rooms", secret, new)[0] == 409
        for wrong in ({"owner": "alice"}, {"owner": "alice@localhost/phone"}, {"room": "a b"}):
            assert _ask(server, "POST", "/domains/localhost/rooms", secret, {**new, **wrong})[0] == 422, wrong
        room = "/rooms/garden%40conference.localhost"
        wanted = {"name": "The garden", "description": "", "public": True, "persistent": True, "members_only": False, "affiliations": 1}
        shown = _json(server, "GET", room, secret)
        assert {key: shown[key] for key in wanted} == wanted and shown["occupants"] == [], shown
        assert _ask(server, "PATCH", room, secret, {"description": "Weeds", "members_only": True})[0] == 204
        shown = _json(server, "GET", room, secret)
        assert {key: shown[key] for key in wanted} == {**wanted, "description": "Weeds", "members_only": True}, shown
        # An empty room that stops being persistent is destroyed.
        assert _ask(server, "PATCH", room, secret, {"persistent": False})[0] == 204
        assert [_ask(server, method, room, secret, body)[0] for method, body in (("GET", None), ("PATCH", {"name": "x"}))] == [404, 404]


async def what_is_no_request_is_refused():
    async with Rookery("alice") as server:
        secret = _token(server, "all", ALL)
        path = "/domains/localhost/users"
        for body in (b"", b"{", b"[]", b'{"name": 1, "password": "x"}', b'{"name": "a"}', b'{"name": "a", "password": "x", "more": 1}', b"\xff"):
            status, headers, _ = _ask(server, "POST", path, secret, raw=body)
            assert status == 400 and headers["content-type"] == "application/problem+json", (body, status)
        assert _ask(server, "POST", path, secret, {"name": "a b@", "password": "x"})[0] == 422
        assert _ask(server, "POST", path, secret, {"name": "a", "password": "\0" * 8})[0] == 422
        assert _ask(server, "POST", path, secret, {"name": "a", "password": "x" * 70_000})[0] == 413
        assert _ask(server, "POST", path, secret, raw=b"{}", headers={"Content-Type": "text/plain"})[0] == 415
        for path in ("/users/alice", "/users/localhost", "/users/alice%40localhost%2Fphone", "/users/%00", "/users/%ff", "/users/", "/users//sessions"):
            assert _ask(server, "GET", path, secret)[0] in (400, 404), path


async def the_api_is_for_those_who_may_come_here():
    async with Rookery("alice") as server:
        secret = _token(server, "reader", "statistics:read")
        # A proxy that isn't configured would make every client look like this machine.
        for name in ("X-Forwarded-For", "Forwarded"):
            assert _ask(server, "GET", "/statistics", secret, headers={name: "127.0.0.1"})[0] == 403, name
    async with Rookery("alice", tables="[web]\napi_networks = []\n") as server:
        secret = _token(server, "reader", "statistics:read")
        assert _ask(server, "GET", "/statistics", secret)[0] == 403
        assert _ask(server, "GET", "/openapi.json")[0] == 403


async def schemathesis_finds_nothing():
    async with Rookery("alice", "bob") as server:
        secret = _token(server, "tester", ALL)
        config = Path(__file__).with_name("schemathesis.toml")
        base = f"http://127.0.0.1:{server.web_port}/api/v1"
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", f"{base}/openapi.json", "--url", base,
                "--header", f"Authorization: Bearer {secret}", "--max-examples", "12", "--seed", "7", "--generation-deterministic",
                "--phases", "examples,coverage,fuzzing", "--no-color",
            ]
            process = await asyncio.create_subprocess_exec(
                *map(str, command), cwd=folder, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            said = (await process.communicate())[0].decode()
        assert process.returncode == 0, said[-60_000:]


def _token(server, name, scopes, *more):
    secret = server.command("token", "add", name, "--scope", scopes, *more).strip()
    assert re.fullmatch(r"rookery_[0-9a-f]{64}", secret), secret
    return secret


def _ask(server, method, path, secret=None, body=None, raw=None, headers=None):
    """The status, headers and body of a response."""
    headers = dict(headers or {})
    if secret:
        headers.setdefault("Authorization", f"Bearer {secret}")
    if body is not None:
        raw = json.dumps(body).encode()
    if raw is not None:
        headers.setdefault("Content-Type", "application/json")
    answer = Browser(server).ask(method, f"/api/v1{path}", headers, raw)
    return answer.status, answer.headers, answer.text


def _json(server, method, path, secret):
    status, _, body = _ask(server, method, path, secret)
    assert status == 200, (status, body)
    return json.loads(body)
