"""Checks every page that a person sees, at the widths of a phone, a tablet and a desktop, in light
and dark.

With ROOKERY_GALLERY=FOLDER the pictures are kept there: `cargo xtask gallery FOLDER`.
"""

import contextlib
import json
import os
import shutil
from pathlib import Path

from browser import Browser, token
from chromium import Chromium
from mobile import _phone
from person import Person
from registration import _register
from rookery import Rookery

CONVERSE = os.environ.get("ROOKERY_CONVERSE")
GALLERY = os.environ.get("ROOKERY_GALLERY")
WIDTHS = (360, 768, 1280)
TABLES = """
[modules.administration]
admins = ["admin@localhost"]
[modules.register]
allow_creation = true
approve = true
[web]
title = "Chat of the Smiths"
"""
NAMES = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "niaj", "olivia", "peggy"]


async def every_page_fits_every_width():
    async with Rookery("admin", *NAMES, tables=TABLES) as server, Chromium(server) as chromium, contextlib.AsyncExitStack() as there:
        shutil.copytree(Path(CONVERSE) / "web", server.folder / "rookery-data/web")
        invited, reset = await _fill(server, there)
        base = f"https://localhost:{server.web_tls_port}"
        page = await chromium.page("a person")
        public = {
            "home": "/", "invite": f"/invite/{invited}", "reset": f"/reset/{reset}", "welcome": "/welcome?account=eve%40localhost&about=new",
            "spent": f"/invite/{'x' * 26}", "account": "/account", "lost": "/nothing", "chat": "/chat", "login": "/admin/login",
        }
        for name, path in public.items():
            await _shown(page, base + path)
            if name == "chat":
                await page.until("document.querySelector('#converse-login') !== null")
            await _widths(page, name)
        await _refused(page, f"{base}/account", {"#name": "alice@localhost", "#password": "wrong"}, "button[value=download]", "#notice", "account-refused")
        fields = {"#name": "eve", "#password": "geheim12", "#again": "geheim21"}
        await _refused(page, f"{base}/invite/{invited}", fields, "#send", ".fault", "invite-refused")
        await _shown(page, f"{base}/admin/login")
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "wrong")
        await page.click("#login button")
        await page.sees("account or password is wrong", "#notice")
        await _widths(page, "login-wrong")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees("Overview", "h1")
        private = {
            "overview": "", "users": "/users", "user": "/user?jid=alice%40localhost", "sessions": "/sessions", "rooms": "/rooms",
            "room": "/room?jid=family%40conference.localhost", "domains": "/domains", "servers": "/servers", "messages": "/messages", "invitations": "/invitations",
            "reports": "/reports", "log": "/log", "missing": "/nothing",
        }
        for name, path in private.items():
            await _shown(page, f"{base}/admin{path}")
            await _widths(page, name)
        refused = {
            "users-refused": ("/users", "#new-user", {"name": "alice", "password": "short"}, "#create"),
            "rooms-refused": ("/rooms", "#new-room", {"local": "family"}, "#create"),
            "invitations-refused": ("/invitations", "#reset", {"jid": "nobody"}, "#reset button"),
        }
        for name, (path, form, fields, button) in refused.items():
            fields = {f"{form}-{field}": value for field, value in fields.items()}
            await _refused(page, f"{base}/admin{path}", fields, button, ".mistake", name)
        await page.ask("Network.setExtraHTTPHeaders", headers={"Accept-Language": "de"})
        await _shown(page, f"{base}/admin")
        await _widths(page, "overview-german")


async def _shown(page, url):
    await page.open(url)
    await page.until(f"location.href === {json.dumps(url)} && document.readyState === 'complete' && document.body.innerText.length > 20")


async def _refused(page, url, fields, button, fault, name):
    """Sends a form with mistakes, which comes back with its messages."""
    await _shown(page, url)
    await page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    for field, value in fields.items():
        await page.type(field, value)
    await page.click(button)
    await page.until(f"document.querySelector({json.dumps(fault)}) !== null")
    await _widths(page, name)


async def _widths(page, name):
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            await page.size(width, 800, mobile=width < 500)
            await page.colours(scheme)
            await page.run("scrollTo(0, 0)")
            assert await page.run("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            if GALLERY:
                Path(GALLERY).mkdir(parents=True, exist_ok=True)
                await page.picture(Path(GALLERY) / f"{name}-{width}-{scheme}.webp")


async def _fill(server, there):
    """Gives every page some content: people who talk in a room and elsewhere, one whose connection
    was lost, an abuse report, links.
    """
    people = {name: await there.enter_async_context(Person(server, f"{name}@localhost")) for name in NAMES[:8]}
    browser = Browser(server)
    browser.post("/admin/login", {"name": "admin", "password": "secret"})
    browser.send("/admin/rooms", {"form": "new-room", "local": "family", "name": "Family", "description": "Dinner and other plans"})
    room = "family@conference.localhost"
    for name, person in people.items():
        await person.presence(f"{name}@localhost")
        person.client.send_raw(f"<presence to='{room}/{name.title()}'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await person.presence(f"{room}/{name.title()}")
    people["alice"].client.send_raw(f"<message to='{room}' type='groupchat'><body>Dinner at eight?</body></message>")
    people["bob"].write("alice@localhost", "I bring the cake")
    await people["alice"].until(lambda: any("cake" in str(message) for message in people["alice"].seen["message"]))
    lost = await _phone(server, "peggy@localhost")
    await lost.quiet()
    lost.client.transport.abort()
    report = "<report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'><text>Sells watches, every day.</text></report>"
    people["carol"].client.send_raw(f"<iq type='set' id='r'><block xmlns='urn:xmpp:blocking'><item jid='mallory@localhost'>{report}</item></block></iq>")
    await people["carol"].until(lambda: "Sells watches" in browser.get("/admin/reports").text)
    assert await _register(server, "newcomer@localhost", "geheim12") is None
    await people["carol"].until(lambda: "newcomer@localhost" in browser.get("/admin/reports").text)
    for act in ({"jid": "niaj@localhost", "act": "disable"}, {"jid": "olivia@localhost", "act": "disable"}):
        browser.post("/admin/user", {"csrf": token(browser.get("/admin/users").text), **act})
    invited = server.command("user", "invite", "localhost").strip().split("preauth=")[1]
    reset = server.command("user", "reset-link", "peggy@localhost").strip().split("preauth=")[1]
    return invited, reset
