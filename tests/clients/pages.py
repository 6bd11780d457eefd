"""Runs the pages that people use in a browser in headless Chromium: the chat page and the admin
page.
"""

import asyncio
import contextlib
import json
import os
import shutil
import struct
import zlib
from pathlib import Path

from browser import Browser
from chromium import Chromium
from guests import _look
from person import Person
from rookery import Rookery

# Converse.js as `rookery web install` made it for these tests.
CONVERSE = os.environ.get("ROOKERY_CONVERSE")
# The folder for pictures of the admin page, if they are wanted.
PICTURES = os.environ.get("ROOKERY_PICTURES")
DPM = '[dpm]\nenabled = true\ndemo = true\nlisten = "127.0.0.1:0"\n'
ADMIN = '[modules.administration]\nadmins = ["admin@localhost"]\n'
EDITOR = "textarea.chat-textarea"


async def the_chat_page_says_what_is_missing():
    async with Rookery() as server:
        answer = Browser(server, tls=True).get("/chat")
        assert answer.status == 503 and "rookery web install" in answer.text and answer.text.count("\n") == 1, answer


async def the_chat_page_can_be_switched_off():
    async with Rookery(tables="[web]\nchat = false\n") as server:
        _install(server)
        for path in ("/chat", "/chat/start.js"):
            assert Browser(server, tls=True).get(path).status == 404, path


async def the_chat_page_gives_out_its_files_and_nothing_else():
    async with Rookery() as server:
        _install(server)
        browser = Browser(server, tls=True)
        page = browser.get("/chat")
        policy = page.headers["content-security-policy"]
        assert page.status == 200 and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy, page
        assert page.headers["cache-control"] == "no-cache"
        [script] = {part.split('"')[0] for part in page.text.split('src="')[1:] if "converse.min.js" in part}
        plain = browser.get(script)
        assert plain.status == 200 and plain.headers["content-type"].startswith("text/javascript"), plain.status
        assert "immutable" in plain.headers["cache-control"]
        packed = browser.get(script, {"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip" and len(packed.body) < len(plain.body) / 2
        assert browser.ask("HEAD", script).headers["content-length"] == str(len(plain.body))
        assert browser.ask("POST", "/chat", body="x").status == 405
        base = script.rsplit("/", 1)[0]
        for path in ("/../../rookery.db", "/%2e%2e/%2e%2e/rookery.db", "/images/../../../rookery.db", "//etc/passwd", "/images", "/none.js"):
            answer = browser.get(base + path)
            assert answer.status == 404 and len(answer.body) < 100, (path, answer)


async def nobody_is_asked_for_a_password_in_the_clear():
    async with Rookery() as server:
        _install(server)
        answer = Browser(server).get("/chat")
        assert (answer.status, answer.headers["location"]) == (307, f"https://127.0.0.1:{server.web_tls_port}/chat"), answer


async def what_is_not_the_package_is_not_installed():
    async with Rookery() as server:
        (server.folder / "other.tgz").write_bytes(b"something else")
        try:
            server.command("web", "install", "--from", "other.tgz")
        except AssertionError as refused:
            assert "this is not converse.js" in str(refused), refused
        else:
            raise AssertionError("it was installed")
        assert Browser(server, tls=True).get("/chat").status == 503


async def two_people_chat_in_browsers():
    async with Rookery("alice", "bob") as server, Chromium(server) as chromium:
        _install(server)
        alice, bob = await asyncio.gather(_sign_in(chromium, server, "alice"), _sign_in(chromium, server, "bob"))
        await _talk(alice, bob)
        for page in (alice, bob):
            assert set(page.sockets) == {f"wss://localhost:{server.web_tls_port}/ws"}, page.sockets
            _stayed_here(server, page)


async def two_people_chat_where_no_websocket_gets_through():
    async with Rookery("alice", "bob") as server, Chromium(server) as chromium:
        _install(server)
        # One browser has no WebSocket; the other one's WebSockets are blocked on the network.
        without = "delete window.WebSocket"
        broken = "const Real = WebSocket; window.WebSocket = class extends Real { constructor(url, names) { super(url.replace(/ws$/, 'no'), names); } }"
        alice, bob = await asyncio.gather(_sign_in(chromium, server, "alice", without), _sign_in(chromium, server, "bob", broken))
        await _talk(alice, bob)
        assert alice.sockets == [] and bob.sockets == [f"wss://localhost:{server.web_tls_port}/no"], bob.sockets
        for page in (alice, bob):
            assert f"https://localhost:{server.web_tls_port}/http-bind" in page.requests, page.requests
            _stayed_here(server, page)


async def a_picture_is_seen_in_a_room():
    async with Rookery("alice", "bob") as server, Chromium(server) as chromium:
        _install(server)
        # The port for uploads is known only now.
        server.configure(tables=f'[modules.upload]\nurl = "https://localhost:{server.web_tls_port}/upload"\n')
        await server.reload()
        alice, bob = await asyncio.gather(_sign_in(chromium, server, "alice"), _sign_in(chromium, server, "bob"))
        for page in (alice, bob):
            await _enter(page, "tearoom")
        await alice.sees("bob", "converse-muc-sidebar")
        await alice.type(EDITOR, "look at this", enter=True)
        await bob.sees("look at this", ".chat-msg__text")
        picture = server.folder / "picture.png"
        picture.write_bytes(_picture(48, 32))
        await alice.until("document.querySelector('converse-muc input[type=file]') !== null")
        await alice.choose_file("converse-muc input[type=file]", picture)
        for page in (bob, alice):
            shown = "[...document.querySelectorAll('.chat-msg img')].find(img => img.complete && img.naturalWidth === 48)"
            source = await page.until(f"{shown}?.src")
            assert source.startswith(f"https://localhost:{server.web_tls_port}/upload/"), source
            _stayed_here(server, page)


async def the_admin_page_shows_what_happens_and_makes_accounts():
    async with Rookery("admin", "alice", tables=ADMIN) as server, Chromium(server) as chromium:
        page = await chromium.page("admin")
        await page.open(f"https://localhost:{server.web_tls_port}/admin")
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees("Overview", "h1")
        drawn = "document.querySelector('#graphs').innerHTML"
        before = await page.run(drawn)
        async with Person(server, "alice@localhost"):
            # The page refreshes itself, without a click.
            await page.until(f"{drawn} !== {json.dumps(before)}")
            await page.until("document.querySelector('#figure-sessions')?.innerText.trim() === '1'")
            await page.until("document.querySelector('#figure-online')?.innerText.trim() === '1'")
            moved = await page.run("document.querySelector('#graphs svg').outerHTML")
            await page.until(f"document.querySelector('#graphs svg').outerHTML !== {json.dumps(moved)}")
        await page.open(f"https://localhost:{server.web_tls_port}/admin/users")
        await page.click("#new summary")
        await page.type("#new-user-name", "alice")
        await page.type("#new-user-password", "a new secret")
        await page.click("#create")
        # The form keeps its input, and the cursor is in the field with the mistake.
        await page.until("document.activeElement?.id === 'new-user-name' && document.activeElement.value === 'alice'")
        await page.sees("alice@localhost already exists.", "#new-user-name-mistake")
        await page.run("document.getElementById('new-user-name').value = ''")
        await page.type("#new-user-name", "carol")
        await page.click("#new-user .beside button:last-child")
        await page.until("document.getElementById('new-user-password').value.length === 23")
        await page.run("document.getElementById('new-user-password').value = ''")
        await page.type("#new-user-password", "a new secret")
        await page.click("#create")
        await page.sees("carol@localhost was created.")
        assert not [line for line in page.said if "Content Security Policy" in line or "Exception" in line], page.said
        async with Person(server, "carol@localhost", "a new secret"):
            pass


async def graphs_tell_their_values_to_pointer_and_keyboard():
    async with Rookery("admin", tables=ADMIN) as server, Chromium(server) as chromium:
        page = await chromium.page("admin")
        await page.open(f"https://localhost:{server.web_tls_port}/admin")
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees("Overview", "h1")
        figure = "document.querySelector('#graph-sessions')"
        await page.until(f"{figure}.querySelector('svg').dataset.places.includes(';')")
        spoken = f"{figure}.querySelector('output').textContent"
        keys = "dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
        await page.run(f"(key => {figure}.querySelector('svg').{keys})('End')")
        newest = await page.run(spoken)
        assert newest.endswith(": 0") and len(newest) > 10, newest
        await page.run(f"(key => {figure}.querySelector('svg').{keys})('ArrowLeft')")
        assert await page.run(spoken) not in ("", newest)
        await page.run(f"(key => {figure}.querySelector('svg').{keys})('Escape')")
        assert await page.run(spoken) == ""
        await page.run(f"{figure}.querySelector('svg').scrollIntoView()")
        left, top = await page.run(f"(box => [box.left + box.width * 0.9, box.top + 20])({figure}.querySelector('svg').getBoundingClientRect())")
        await page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=left, y=top)
        await page.until(f"{spoken} !== ''")
        await page.click(".ranges a:last-child")
        await page.until("document.querySelector('.ranges [aria-current=true]')?.textContent === '30 days'")
        await page.sees("−30 d", "#graph-sessions")


async def the_admin_page_is_legible_everywhere():
    """With ROOKERY_PICTURES=FOLDER the pictures that the documentation shows are made there."""
    accounts = ["admin", *(f"user{number}" for number in range(8))]
    async with Rookery(*accounts, tables=ADMIN) as server, Chromium(server) as chromium:
        page = await chromium.page("admin")
        await page.size(1100, 900)
        await page.open(f"https://localhost:{server.web_tls_port}/admin")
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees("Overview", "h1")
        async with contextlib.AsyncExitStack() as there:
            if PICTURES:
                await _bustle(server, accounts[1:], there)
            for name, scheme, width, height in (("light", "light", 1100, 800), ("dark", "dark", 1100, 800), ("phone", "light", 390, 844)):
                await page.size(width, height, mobile=width < 500)
                await page.colours(scheme)
                await page.run("scrollTo(0, 0)")
                # Nothing is wider than the screen, and text contrasts with its background.
                assert await page.run("document.documentElement.scrollWidth <= innerWidth"), name
                behind, text = await page.run(f"[{_brightness('backgroundColor')}, {_brightness('color')}]")
                assert (behind - text > 300) if scheme == "light" else (text - behind > 300), (name, behind, text)
                if PICTURES:
                    await page.picture(Path(PICTURES) / f"admin-{name}.png")


async def axe_finds_nothing_on_the_admin_page():
    async with Rookery("admin", "alice", tables=ADMIN) as server, Chromium(server) as chromium, Person(server, "alice@localhost"):
        page = await chromium.page("admin")
        base = f"https://localhost:{server.web_tls_port}/admin"
        await page.open(base)
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees("Overview", "h1")
        for path in ("", "/users", "/user?jid=alice%40localhost", "/sessions", "/rooms", "/domains", "/servers", "/messages", "/invitations", "/reports", "/log"):
            await page.open(base + path)
            await page.until(f"location.href === {json.dumps(base + path)} && document.readyState === 'complete' && document.querySelector('h1') !== null")
            await _look(page, "admin-" + (path.strip("/").split("?")[0] or "overview"))


async def devices_are_seen_and_plotted_on_their_page():
    async with Rookery("alice", tables=DPM) as server, Chromium(server) as chromium:
        secret = server.command("token", "add", "plots", "--scope", "readings:read").split()[-1]
        page = await chromium.page("devices")
        await page.open(f"https://localhost:{server.web_tls_port}/devices")
        await _look(page, "devices-without-token")
        await page.type("#token", "wrong")
        await page.click("#access button")
        await page.sees("may not read devices", "#state")
        await page.type("#token", secret)
        await page.click("#access button")
        await page.sees("Connected", "#state")
        await page.type("#request", "G:COUNTR@p,200")
        await page.click("#plotted button")
        # The page's own reader is among the readers that it lists, and the plot grows.
        await page.sees("G:COUNTR@p,200", "#devices button")
        await page.sees("RETDAT", "#fronts")
        await page.until("document.querySelector('#plot polyline')?.getAttribute('points').split(' ').length >= 5")
        await page.run("document.getElementById('stop').click()")
        await page.run("[...document.querySelectorAll('#devices button')][0].click()")
        await page.until("document.getElementById('stop').disabled === false")
        await _look(page, "devices")
        await page.run("document.getElementById('request').value = ''")
        await page.type("#request", "X:NOBODY")
        await page.click("#plotted button")
        await page.sees("X:NOBODY: [16 -13]", "#plot-words")


async def axe_finds_nothing_in_german():
    await _speaks("de", "Überblick")


async def axe_finds_nothing_in_french():
    await _speaks("fr", "Vue d’ensemble")


async def axe_finds_nothing_in_spanish():
    await _speaks("es", "Resumen")


async def axe_finds_nothing_where_something_went_wrong():
    async with Rookery("admin", "alice", tables=ADMIN) as server, Chromium(server) as chromium, Person(server, "alice@localhost") as alice:
        report = "<report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:abuse'><text>Rude.</text></report>"
        for about in ("admin@localhost", "spam.example"):
            alice.client.send_raw(f"<iq type='set' id='{about}'><block xmlns='urn:xmpp:blocking'><item jid='{about}'>{report}</item></block></iq>")
        page = await chromium.page("admin")
        base = f"https://localhost:{server.web_tls_port}/admin"
        await page.open(base)
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "wrong")
        await page.click("#login button")
        await page.sees("account or password is wrong", "#notice")
        await _look(page, "admin-login-wrong")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees("To do", "h2")
        await page.sees("2", "#to-reports .count")
        await _look(page, "admin-overview-to-do")
        await page.open(f"{base}/reports")
        await page.sees("Rude.", "blockquote")
        await _look(page, "admin-reports")
        await page.open(f"{base}/users")
        await page.click("#new summary")
        await page.type("#new-user-name", "alice")
        await page.type("#new-user-password", "short")
        await page.click("#create")
        await page.sees("A password has at least 8 characters.", ".mistake")
        await _look(page, "admin-users-mistake")


async def _speaks(language, overview):
    """The words of other languages are longer than those of English: nothing is cut off, and axe finds nothing, at any width."""
    async with Rookery("admin", "alice", tables=ADMIN) as server, Chromium(server) as chromium, Person(server, "alice@localhost"):
        page = await chromium.page("admin")
        base = f"https://localhost:{server.web_tls_port}/admin"
        await page.ask("Network.setExtraHTTPHeaders", headers={"Accept-Language": language})
        await page.open(base)
        await page.until(f"document.documentElement.lang === {json.dumps(language)} && document.querySelector('#login') !== null")
        await page.type("#login input[name=name]", "admin")
        await page.type("#login input[name=password]", "secret")
        await page.click("#login button")
        await page.sees(overview, "h1")
        paths = ("", "/users", "/user?jid=alice%40localhost", "/sessions", "/rooms", "/domains", "/servers", "/messages", "/invitations", "/reports", "/log")
        for path in paths:
            await page.open(base + path)
            await page.until(f"location.href === {json.dumps(base + path)} && document.readyState === 'complete' && document.querySelector('h1') !== null")
            await _look(page, f"admin-{language}-" + (path.strip("/").split("?")[0] or "overview"), dark=False)


def _brightness(property):
    """A script for how bright a colour of the page is, from 0 to 765."""
    return f"getComputedStyle(document.body).{property}.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)"


async def _bustle(server, names, there):
    """Gives the graphs something to show: people log in and chat, and stay as long as `there` does.
    """
    for number, name in enumerate(names):
        person = await there.enter_async_context(Person(server, f"{name}@localhost"))
        for _ in range(20 * (number % 4) + 10):
            person.client.send_message(f"{names[0]}@localhost", "hello", mtype="chat")
        await asyncio.sleep(5)
    await asyncio.sleep(6)


def _install(server):
    """Installs the files that `rookery web install` made for these tests."""
    shutil.copytree(Path(CONVERSE) / "web", server.folder / "rookery-data/web")


async def _sign_in(chromium, server, name, before=None):
    """Opens the chat page as a user and logs in. The browser runs the script `before` before those
    of the page.
    """
    page = await chromium.page(name)
    if before:
        await page.ask("Page.addScriptToEvaluateOnNewDocument", source=before)
    await page.open(f"https://localhost:{server.web_tls_port}/chat")
    await page.type("#converse-login input[name=jid]", name)
    await page.type("#converse-login input[name=password]", "secret")
    await page.click("#converse-login [type=submit]")
    await page.sees("I am online")
    return page


async def _talk(alice, bob, to="bob@localhost", whence="alice@localhost"):
    """Sends a message from one page, and an answer from the other."""
    await alice.run("document.querySelector('a.new-chat').click()")
    await alice.type(".modal.show input[name=jid]", to)
    await alice.click(".modal.show button[type=submit]")
    await alice.type(EDITOR, "hello bob", enter=True)
    # The list may be drawn again under the finger.
    contact = json.dumps(f".open-chat[data-jid='{whence}']")
    await bob.until(f"Boolean(document.querySelector({json.dumps(EDITOR)})) || void document.querySelector({contact})?.click()")
    await bob.sees("hello bob", ".chat-msg__text")
    await bob.type(EDITOR, "hello alice", enter=True)
    await alice.sees("hello alice", ".chat-msg__text")


async def _enter(page, room):
    await page.run("document.querySelector('a.show-add-muc-modal').click()")
    await page.type(".modal.show input[name=chatroom]", room)
    await page.type(".modal.show input[name=nickname]", page.name)
    await page.click(".modal.show input[name=join]")
    await page.sees(page.name, "converse-muc-sidebar")


def _stayed_here(server, page):
    """Asserts that the page contacted no other host, and that its policy blocked nothing. """
    elsewhere = [url for url in page.requests if not url.startswith((f"https://localhost:{server.web_tls_port}/", "data:", "blob:"))]
    assert elsewhere == [] and page.refused == [], (elsewhere, page.refused)
    assert not [line for line in page.said if "Content Security Policy" in line], page.said


def _picture(width, height):
    """A picture in one colour, as PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = (b"\0" + b"\x20\x80\xc0" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
