"""Runs the pages for people without an account or its password: the home page, and pages that links
open.
"""

import asyncio
import os
import shutil
from pathlib import Path

from browser import Browser
from chromium import Chromium
from person import Person, befriend, is_refused
from rookery import Rookery
from registration import _link, _redeem

# Converse.js as `rookery web install` made it for these tests, and the libraries of Node.
CONVERSE = os.environ.get("ROOKERY_CONVERSE")
NODE = os.environ.get("ROOKERY_NODE")
# The folder for pictures of the pages, if any are wanted.
WIDTHS = (360, 768, 1100)
PICTURES = os.environ.get("ROOKERY_PICTURES")
INVITING = "[modules.register]\nusers_invite = true\n"
OFF = "[modules.register]\nenabled = false\n"
NEW = {"name": "eve", "password": "geheim12", "again": "geheim12"}


async def the_first_page_leads_on():
    async with Rookery(tables='[web]\ntitle = "The <Smiths>"\n') as server:
        page = Browser(server, tls=True).get("/")
        assert page.status == 200 and "Welcome to The &lt;Smiths&gt;" in page.text and "<Smiths>" not in page.text, page
        assert 'href="/admin"' in page.text and 'href="/chat"' not in page.text, "the chat page isn't installed"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy, policy
        shutil.copytree(Path(CONVERSE) / "web", server.folder / "rookery-data/web")
        assert 'href="/chat"' in Browser(server, tls=True).get("/").text
        chat = Browser(server, tls=True).get("/chat").text
        assert "<title>The &lt;Smiths></title>" in chat, chat
        logo = Browser(server, tls=True).get("/logo")
        assert logo.headers["content-type"] == "image/svg+xml" and b"<svg" in logo.body, logo
        icon = Browser(server, tls=True).get("/favicon.ico")
        assert (icon.status, icon.headers["location"]) == (302, "/logo"), icon
        assert Browser(server, tls=True).post("/", {}).status == 405
        (server.folder / "own.png").write_bytes(b"\x89PNG and so on")
        server.configure(tables='[web]\nlogo = "own.png"\n')
        await server.reload()
        logo = Browser(server, tls=True).get("/logo")
        assert (logo.headers["content-type"], logo.body) == ("image/png", b"\x89PNG and so on"), logo


async def people_are_led_to_the_encrypted_page():
    async with Rookery(tables='[web]\ntrusted_proxies = ["127.0.0.1"]\n') as server:
        shutil.copytree(Path(CONVERSE) / "web", server.folder / "rookery-data/web")
        far = {"X-Forwarded-For": "192.0.2.7", "Host": "localhost"}
        for path in ("/chat", "/", "/invite/abc?x=1"):
            answer = Browser(server).get(path, far)
            assert (answer.status, answer.headers.get("location")) == (307, f"https://localhost:{server.web_tls_port}{path}"), answer
        assert Browser(server).get("/chat", {"X-Forwarded-For": "127.0.0.1"}).headers["location"] == f"https://127.0.0.1:{server.web_tls_port}/chat"
        answer = Browser(server).get("/", {**far, "Host": "evil.example"})
        assert answer.status == 403 and "location" not in answer.headers, "nobody is led to a name that isn't ours"
        assert Browser(server).get("/", {**far, "X-Forwarded-Proto": "https"}).status == 200


async def pages_speak_the_readers_language():
    async with Rookery() as server:
        for wanted, tag, words in (
            ("de-CH,de;q=0.8", "de", "Willkommen bei localhost"),
            ("fr", "fr", "Bienvenue sur localhost"),
            ("es-AR,en;q=0.1", "es", "Te damos la bienvenida a localhost"),
            ("tlh", "en", "Welcome to localhost"),
        ):
            page = Browser(server, tls=True).get("/", {"Accept-Language": wanted}).text
            assert f'<html lang="{tag}">' in page and words in page, page


async def an_invitation_is_accepted_without_a_client():
    async with Rookery("alice", tables=INVITING) as server, Person(server, "alice@localhost") as alice:
        uri = await _link(alice, "urn:xmpp:invite#invite")
        path = "/invite/" + uri.split("preauth=")[1].split(";")[0]
        browser = Browser(server, tls=True)
        page = browser.get(path)
        assert page.status == 200 and "alice@localhost invites you" in page.text and "At least 8 characters" in page.text, page
        assert 'href="xmpp:alice@localhost?roster;preauth=' in page.text and 'class="qr"' in page.text, page.text
        assert page.headers["cache-control"] == "no-store" and page.headers["referrer-policy"] == "no-referrer", page.headers
        for sent, said in (
            ({**NEW, "name": "a b"}, "This name isn’t possible"),
            ({**NEW, "name": "e\u0432e"}, "letters of different alphabets"),
            ({**NEW, "password": "short", "again": "short"}, "needs at least 8 characters"),
            ({**NEW, "again": "geheim13"}, "The two passwords are not the same"),
            ({**NEW, "name": "alice"}, "This name is taken"),
        ):
            page = browser.post(path, sent)
            assert page.status in (409, 422) and said in page.text and 'role="alert"' in page.text, page
            assert 'aria-invalid="true"' in page.text and f'value="{sent["name"]}"' in page.text, "what was typed is kept"
            assert sent["password"] not in page.text, "but for the password"
        assert browser.post(path, NEW, {"Sec-Fetch-Site": "cross-site"}).status == 403
        answer = browser.post(path, NEW)
        assert (answer.status, answer.headers["location"]) == (303, "/welcome?account=eve%40localhost&about=new"), answer
        assert "eve@localhost" in browser.get(answer.headers["location"]).text
        assert browser.get(path).status == 404 and browser.post(path, {**NEW, "name": "mallory"}).status == 404, "it was good once"
        async with Person(server, "eve@localhost", "geheim12") as eve:
            assert eve.item(alice.bare)["subscription"] == "both", eve.item(alice.bare)
        log = server.log.read_text()
        assert "an account was created" in log and path.rsplit("/", 1)[1] not in log, "a token is a secret"


async def a_link_is_good_here_or_in_a_client_but_once():
    async with Rookery() as server:
        links = [server.command("user", "invite", what).strip() for what in ("localhost", "eve@localhost")]
        tokens = [link.split("preauth=")[1] for link in links]
        browser = Browser(server, tls=True)
        assert await _redeem(server, "bob", "geheim12", tokens[0]) is None
        assert browser.post(f"/invite/{tokens[0]}", NEW).status == 404
        page = browser.get(f"/invite/{tokens[1]}").text
        assert "Your address will be eve@localhost." in page and "readonly" in page, page
        page = browser.post(f"/invite/{tokens[1]}", {**NEW, "name": "mallory"})
        assert page.status == 422 and "for the name eve only" in page.text, page
        both = await asyncio.gather(*(asyncio.to_thread(Browser(server, tls=True).post, f"/invite/{tokens[1]}", NEW) for _ in range(2)))
        assert sorted(answer.status for answer in both)[0] == 303 and max(answer.status for answer in both) in (404, 409), both
        assert await _redeem(server, "eve", "geheim12", tokens[1]) == "item-not-found"
        async with Person(server, "eve@localhost", "geheim12"):
            pass


async def a_forgotten_password_is_set_on_a_page():
    async with Rookery("alice") as server, Person(server, "alice@localhost") as alice:
        token = server.command("user", "reset-link", "alice@localhost").strip().split("preauth=")[1]
        browser = Browser(server, tls=True)
        assert browser.get(f"/invite/{token}").headers["location"] == f"/reset/{token}"
        page = browser.get(f"/reset/{token}", {"Accept-Language": "de"}).text
        assert "Für das Konto alice@localhost." in page and page.count('type="password"') == 2, page
        page = browser.post(f"/reset/{token}", {"password": "geheim12", "again": "geheim"})
        assert page.status == 422 and "not the same" in page.text, page
        answer = browser.post(f"/reset/{token}", {"password": "geheim12", "again": "geheim12", "name": "mallory"})
        assert answer.status == 303 and answer.headers["location"].endswith("account=alice%40localhost&about=password"), answer
        assert "Your new password is set" in browser.get(answer.headers["location"]).text
        await alice.until(lambda: alice.seen["disconnected"])
        await is_refused(server, "alice@localhost", "secret", "not-authorized")
        async with Person(server, "alice@localhost", "geheim12"):
            pass


async def tokens_are_not_guessed():
    async with Rookery() as server:
        browser = Browser(server, tls=True)
        link = "/invite/" + server.command("user", "invite", "localhost").strip().split("preauth=")[1]
        statuses = [browser.get(f"/{folder}/{guess}").status for guess in ("a" * 26, "../..", "%00", "x" * 3000, "") * 2 for folder in ("invite", "reset")]
        assert statuses == [404] * 20, statuses
        answer = browser.get(link)
        assert answer.status == 429 and int(answer.headers["retry-after"]) > 1, "not even the right one is looked at"
        assert browser.post(link, NEW).status == 429
        assert browser.get("/").status == 200


async def links_lead_nowhere_without_the_module():
    async with Rookery() as server:
        link = "/invite/" + server.command("user", "invite", "localhost").strip().split("preauth=")[1]
        server.configure(tables=OFF)
        await server.reload()
        assert Browser(server, tls=True).get(link).status == 404


async def people_get_their_data_and_leave():
    async with Rookery("alice", "bob", tables=OFF) as server:
        page = Browser(server, tls=True)
        assert 'href="/account"' in page.get("/").text
        form = page.get("/account")
        assert form.status == 200 and 'value="remove"' not in form.text, "nobody may remove an account here"
        wrong = page.post("/account", {"name": "alice@localhost", "password": "wrong", "act": "download"})
        assert wrong.status == 401 and "is wrong" in wrong.text and "secret" not in wrong.text, wrong
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            alice.write(bob.bare, "mine and yours")
            await bob.reads("mine and yours", of=alice.bare)
            own = {"name": "alice", "password": "secret", "act": "download"}
            for _ in range(3):
                # An archive gathers messages for a second before it writes them.
                await asyncio.sleep(1)
                file = page.post("/account", own)
                assert (file.status, file.headers["content-type"]) == (200, "application/xml"), file
                assert "attachment" in file.headers["content-disposition"], file
            assert "bob@localhost" in file.text and "mine and yours" in file.text, file.text
            assert page.post("/account", own).status == 429, "three an hour are enough"
            gone = {"name": "alice@localhost", "password": "secret", "act": "remove", "sure": "yes"}
            assert page.post("/account", gone).status == 403
            await alice.quiet()
            server.configure()
            await server.reload()
            assert 'value="remove"' in page.get("/account").text
            unsure = {name: given for name, given in gone.items() if name != "sure"}
            answer = page.post("/account", unsure)
            assert answer.status == 422 and "Nothing has been done yet" in answer.text, answer
            answer = page.post("/account", {**gone, "password": "wrong"})
            assert answer.status == 401, answer
            answer = page.post("/account", gone)
            assert answer.status == 200 and "Your account is deleted" in answer.text, answer
            await alice.until(lambda: alice.seen["disconnected"])
        await is_refused(server, "alice@localhost", "secret", "not-authorized")
        assert server.command("user", "list") == "bob@localhost\n"
        elsewhere = page.post("/account", own, {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"})
        assert elsewhere.status == 403, elsewhere


async def somebody_joins_in_a_browser():
    """A person gets from the link to a conversation, on a phone and on a desktop, in light and
    dark; axe finds nothing.
    """
    async with Rookery("alice", tables=INVITING) as server, Person(server, "alice@localhost") as alice, Chromium(server) as chromium:
        shutil.copytree(Path(CONVERSE) / "web", server.folder / "rookery-data/web")
        base = f"https://localhost:{server.web_tls_port}"
        token = (await _link(alice, "urn:xmpp:invite#invite")).split("preauth=")[1].split(";")[0]
        page = await chromium.page("eve")
        await page.open(base)
        await page.sees("Welcome to localhost")
        await _look(page, "home")
        await page.open(f"{base}/invite/{token}")
        await page.sees("alice@localhost invites you")
        # The time is in the reader's time zone, and passwords can be shown.
        await page.until("document.querySelector('time').title.endsWith('UTC')")
        await page.click("#show-passwords input")
        assert await page.run("document.querySelector('#password').type") == "text"
        await page.click("#show-passwords input")
        await _look(page, "invite")
        await page.type("#name", "alice")
        for field in ("#password", "#again"):
            await page.type(field, "geheim12")
        await page.click("#send")
        await page.sees("This name is taken")
        assert await page.run("document.querySelector('#name').value") == "alice"
        assert await page.run("document.activeElement.id") == "name", "the page begins at the fault"
        await _look(page, "invite-fault")
        await page.run("document.querySelector('#name').value = ''")
        await page.type("#name", "eve")
        for field in ("#password", "#again"):
            await page.type(field, "geheim12")
        await page.click("#send")
        await page.sees("eve@localhost", "#account")
        await _look(page, "welcome")
        reset = server.command("user", "reset-link", "alice@localhost").strip().split("preauth=")[1]
        desk = await chromium.page("reset")
        await desk.open(f"{base}/reset/{reset}")
        await desk.sees("For the account alice@localhost")
        await _look(desk, "reset")
        await desk.open(f"{base}/reset/{'x' * 26}")
        await desk.sees("no longer valid")
        await _look(desk, "spent")
        for shown in (page, desk):
            assert not [url for url in shown.requests if not url.startswith((f"{base}/", "data:"))], shown.requests
            # An error status in response to a mistake is no fault of the page.
            faults = [line for line in shown.said if "the server responded with a status of 4" not in line]
            assert not faults, faults
        await page.click("a[href='/chat']")
        await page.type("#converse-login input[name=jid]", "eve@localhost")
        await page.type("#converse-login input[name=password]", "geheim12")
        await page.click("#converse-login [type=submit]")
        await page.sees("I am online")
        await alice.presence("eve@localhost")


async def the_chat_page_is_the_servers():
    async with Rookery(tables='[web]\ntitle = "Chat of the Smiths"\n') as server, Chromium(server) as chromium:
        shutil.copytree(Path(CONVERSE) / "web", server.folder / "rookery-data/web")
        page = await chromium.page("eve")
        await page.open(f"https://localhost:{server.web_tls_port}/chat")
        await page.sees("Chat of the Smiths", "h1")
        await page.until("document.querySelector('#converse-login') !== null")
        assert await page.run("document.title") == "Chat of the Smiths"
        assert await page.run("[...document.images].filter(image => image.complete && !image.naturalWidth).length") == 0
        assert not page.refused, page.refused
        if PICTURES:
            await page.picture(Path(PICTURES) / "chat-login.png")


async def _look(page, name, dark=True):
    """What axe says of a page at the width of a phone, a tablet and a desk, and in the dark; and that nothing is cut off."""
    axe = (Path(NODE) / "node_modules/axe-core/axe.min.js").read_text()
    await page.run(axe + "; 0")
    for width in WIDTHS:
        await page.size(width, 800, mobile=width < 500)
        # Colours are the same at every width; pictures are taken of all widths.
        schemes = ("light", "dark") if PICTURES or (dark and width == WIDTHS[-1]) else ("light",)
        for scheme in schemes:
            await page.colours(scheme)
            found = await page.run("axe.run({resultTypes: ['violations']}).then(found => found.violations.map(fault => `${fault.id}: ${fault.nodes[0].html}`))")
            assert found == [], (name, width, scheme, found)
            assert await page.run("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            if PICTURES:
                height = await page.run("document.documentElement.scrollHeight")
                await page.size(width, min(height, 2400), mobile=width < 500)
                await page.picture(Path(PICTURES) / f"{name}-{width}-{scheme}.png")
                await page.size(width, 800, mobile=width < 500)
