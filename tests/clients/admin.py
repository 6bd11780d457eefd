"""Uses the admin page as administrators do, in a browser without script."""

import asyncio
import getpass
import json
import re
import xml.etree.ElementTree as ElementTree
from urllib.parse import quote

from slixmpp.componentxmpp import ComponentXMPP

from browser import Browser, token
from mobile import _phone
from network import Network
from person import Person, is_refused
from rookery import Rookery

ADMIN = '[modules.administration]\nadmins = ["admin@localhost"]\n'
TWO = 'domains = ["localhost", "other.example"]'


async def an_administrator_signs_in_and_out():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        for tls in (False, True):
            browser = Browser(server, tls)
            answer = browser.get("/admin")
            assert (answer.status, answer.headers["location"]) == (303, "/admin/login"), answer
            assert "<form id=\"login\"" in browser.get("/admin/login").text
            answer = browser.post("/admin/login", {"name": "admin", "password": "secret"})
            assert (answer.status, answer.headers["location"]) == (303, "/admin"), answer
            [cookie] = answer.cookies
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/admin" in cookie, cookie
            assert ("Secure" in cookie.split("; ")) == tls, cookie
            page = browser.get("/admin")
            assert page.status == 200 and "admin@localhost" in page.text and "<svg" in page.text, page
            assert page.headers["cache-control"] == "no-store" and "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert "unsafe" not in page.headers["content-security-policy"]
            _is_well_formed(page.text)
            answer = browser.post("/admin/logout", {"csrf": token(page.text)})
            assert answer.headers["location"] == "/admin/login" and not browser.cookies, answer
            browser.cookies[cookie.split("=")[0]] = cookie.split("=")[1].split(";")[0]
            assert browser.get("/admin").status == 303, "the cookie still counts"


async def the_overview_says_whether_all_is_well():
    async with Rookery("admin", "alice", tables=ADMIN) as server, Person(server, "alice@localhost"):
        browser = _signed_in(server)
        page = browser.get("/admin").text
        _is_well_formed(page)
        tasks = _tasks(page)
        assert "All is well." in page if not tasks else all(re.search("disk|slow|late|shard", task) for task in tasks), "a machine of tests may be slow, or full"
        figures = dict(re.findall(r'<dd id="figure-([a-z]+)">([^<]*)</dd>', page))
        assert (figures["connected"], figures["waiting"], figures["accounts"]) == ("1", "0", "2"), figures
        assert figures["online"] == "1" and "slow" not in figures, figures
        assert figures["version"].count(".") == 2 and figures["uptime"] == "0 min" and figures["disk"], figures
        server.configure(tables=ADMIN + "[web]\nconnections = 77\n")
        await server.reload()
        page = browser.get("/admin").text
        assert 'id="to-do"' in page and "<code>web.connections</code> has changed: restart the server for it to take effect." in page, page
        server.configure(tables=ADMIN)
        await server.reload()


def _tasks(page):
    """The findings in the strip of the overview."""
    strip = re.search(r'<section id="to-do".*?</section>', page, re.S)
    return re.findall(r"<li>(.*?)</li>", strip.group(0)) if strip else []


async def the_page_speaks_the_language_of_the_browser():
    tables = ADMIN + "[modules.register]\nmin_password = 9\n"
    async with Rookery("admin", "alice", tables=tables) as server, Person(server, "alice@localhost") as alice:
        await alice.presence("alice@localhost")
        room = "garden@conference.localhost"
        alice.client.send_raw(f"<presence to='{room}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await alice.presence(f"{room}/Alice")
        report = "<report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:abuse'><text>Rüde.</text></report>"
        alice.client.send_raw(f"<iq type='set' id='r'><block xmlns='urn:xmpp:blocking'><item jid='admin@localhost'>{report}</item></block></iq>")
        await alice.until(lambda: "Rüde" in _signed_in(server).get("/admin/reports").text)
        english = _signed_in(server)
        english.send("/admin/invitations", {"jid": "alice@localhost", "days": "2", "act": "reset"})
        paths = [
            "", "/users", f"/users?only=disabled", f"/user?jid=alice@localhost", "/sessions", "/rooms", f"/room?jid={quote(room)}", "/domains",
            "/records", "/servers", "/messages", "/invitations", "/reports", "/log", "/nothing", "/user?jid=nobody@localhost",
        ]
        alike = set()
        for tag, menu, login in (("de", "Überblick", "Anmelden"), ("fr", "Vue d’ensemble", "Se connecter"), ("es", "Resumen", "Entrar")):
            wish = {"Accept-Language": f"{tag};q=0.9, en;q=0.5"}
            assert f'<button id="sign-in">{login}</button>' in Browser(server).get("/admin/login", wish).text
            browser = _signed_in(server)
            for path in paths:
                page = browser.get(f"/admin{path}", wish)
                assert f'<html lang="{tag}">' in page.text and menu in page.text and "accept-language" in page.headers["vary"], page
                _is_well_formed(page.text)
                # A text that is the same in both languages is a name, a number or a foreign word;
                # the journal names the user of this machine.
                same = _words(english.get(f"/admin{path}").text) & _words(page.text)
                alike.update((tag, path, text) for text in same - ALIKE[tag] - {getpass.getuser()})
            answer = browser.post("/admin/users", {"csrf": token(page.text), "domain": "localhost", "name": "eve", "password": "short"}, wish)
            said = {"de": "Ein Passwort hat mindestens 9 Zeichen.", "fr": "Un mot de passe a au moins 9 caractères.", "es": "Una contraseña tiene al menos 9 caracteres."}
            assert answer.status == 303 and said[tag] in browser.get("/admin/users", wish).text, tag
        assert not alike, alike


def _words(page):
    """The texts of a page, without those marked as English, code and addresses."""
    page = re.sub(r"<title>.*?</title>", "", page)
    page = re.sub(r"<(code|option|blockquote|time|svg)\b.*?</\1>", "", page, flags=re.S)
    page = re.sub(r'<(td|span|p|button)\b[^>]*lang="en"[^>]*>[^<]*', "", page)
    texts = [text.strip(" .:,;–·") for text in re.sub(r"<[^>]*>", "\n", page).splitlines()]
    return {text for text in texts if re.search("[a-zA-Z]{2}", text) and "@" not in text and not text[0].isdigit()}


# Names, and words that are the same in English and another language.
NAMES = {"Rookery", "Alice", "localhost", "TCP, TLS", "Rüde", "garden", "tcp, SCRAM-SHA-512"}
ALIKE = {
    "de": NAMES | {"Version", "Server", "Text", "Client", "Link", "Name", "online", "Moderator", "Spam", "Domain", "Domains", "Stanzas"},
    "fr": NAMES | {"Contacts", "Version", "Sessions", "Messages", "Invitations", "Description", "Affiliation", "Module", "Client", "Occupants", "stanzas"},
    "es": NAMES | {"stanzas"},
}


async def who_is_no_administrator_stays_out():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        said = set()
        for name, password in (("alice", "secret"), ("admin", "wrong"), ("nobody", "secret"), ("\0<b>", "x")):
            browser = Browser(server)
            answer = browser.post("/admin/login", {"name": name, "password": password})
            assert answer.status == 401 and not answer.cookies, answer
            assert "<b>" not in answer.text
            said.add(re.search(r'<div id="notice".*?</div>', answer.text).group())
        assert len(said) == 1, said
        for path in ("/users", "/user?jid=alice%40localhost", "/domains", "/log", "/graphs", "/now", "/rooms", "/sessions", "/reports", "/servers", "/messages", "/invitations"):
            assert Browser(server).get(f"/admin{path}").headers["location"] == "/admin/login", path


async def guessing_is_slowed_down():
    async with Rookery("admin", tables=ADMIN) as server:
        browser = Browser(server)
        statuses = [browser.post("/admin/login", {"name": "admin", "password": f"guess {n}"}).status for n in range(21)]
        assert statuses == [401] * 20 + [429], statuses
        answer = browser.post("/admin/login", {"name": "admin", "password": "secret"})
        assert answer.status == 429 and int(answer.headers["retry-after"]) >= 1, "not even the right one is looked at"


async def forged_forms_and_cookies_do_nothing():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        browser = _signed_in(server)
        account = {"name": "eve", "password": "geheim12", "domain": "localhost"}
        other = token(_signed_in(server).get("/admin/users").text)
        for forged in (None, "", "0" * 64, other):
            fields = account if forged is None else {**account, "csrf": forged}
            assert browser.post("/admin/users", fields).status == 403, forged
        right = {**account, "csrf": token(browser.get("/admin/users").text)}
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            assert browser.post("/admin/users", right, headers).status == 403, headers
            sign_in = {"name": "admin", "password": "secret"}
            assert Browser(server).post("/admin/login", sign_in, headers).status == 403, headers
        name, value = next(iter(browser.cookies.items()))
        for cookie in ("0" * 64, value[:-1], value.upper(), "", "x" * 5000):
            forger = Browser(server)
            forger.cookies = {name: cookie}
            assert forger.get("/admin/users").headers.get("location") == "/admin/login", cookie
            assert forger.post("/admin/users", right).headers.get("location") == "/admin/login", cookie
        assert "eve%40localhost" not in browser.get("/admin/users").text
        assert browser.ask("DELETE", "/admin/users").status == 405
        assert browser.post("/admin/users", {"csrf": right["csrf"], "name": "x" * 70_000}).status == 413


async def an_account_is_made_and_logs_in():
    async with Rookery("admin", tables=ADMIN) as server:
        browser = _signed_in(server)
        page = browser.send("/admin/users", {"name": "Eve", "password": "geheim12", "domain": "localhost"})
        assert "eve@localhost was created." in page.text and 'id="no-sessions"' in page.text, page
        async with Person(server, "eve@localhost", "geheim12") as eve:
            page = browser.get("/admin/user?jid=eve%40localhost")
            assert "127.0.0.1" in page.text and "online now" in page.text, page
            _is_well_formed(page.text)
            assert '<p id="archive" class="faint">0 archived messages</p>' in page.text and 'id="files"' in page.text, page
            resource = re.search(r'name="resource" value="([^"]+)"', page.text).group(1)
            page = browser.send(
                "/admin/user", {"jid": "eve@localhost", "resource": resource, "act": "kick"}, "/admin/user?jid=eve%40localhost"
            )
            assert "1 session was ended." in page.text, page
            await eve.until(lambda: eve.seen["disconnected"])
        _do(browser, "eve@localhost", "password", password="nochgeheimer")
        async with Person(server, "eve@localhost", "nochgeheimer") as eve:
            assert 'id="state" class="tag off"' in _do(browser, "eve@localhost", "disable").text
            await eve.until(lambda: eve.seen["disconnected"])
        await is_refused(server, "eve@localhost", "nochgeheimer", "account-disabled")
        _do(browser, "eve@localhost", "enable")
        answer = _post(browser, "eve@localhost", "export")
        assert answer.status == 200 and answer.headers["content-disposition"].startswith("attachment"), answer
        assert ElementTree.fromstring(answer.body)[0][0].get("name") == "eve"
        page = _do(browser, "eve@localhost", "erase", confirm="eve")
        assert "type eve@localhost to confirm it" in page.text, page
        assert "eve@localhost was erased." in _do(browser, "eve@localhost", "erase", confirm="eve@localhost").text
        await is_refused(server, "eve@localhost", "nochgeheimer", "not-authorized")
        assert browser.get("/admin/user?jid=eve%40localhost").status == 404
        log = browser.get("/admin/log").text
        for act in ("signed in", "created an account: eve@localhost", "exported an account", "deleted an account: eve@localhost"):
            assert act in log, log
        logins = re.findall(r"<tr><td class=\"when\"><time[^>]*>[^<]*</time><td[^>]*>(eve[^<]*)<td[^>]*>([^<]*)<td[^>]*>([^<]*)<td[^>]*>(?:<span[^>]*>)?([^<]*)(?:</span>)?</tr>", log)
        who, address, how, outcome = logins[-1]
        assert who.startswith("eve@localhost/") and (address, outcome) == ("127.0.0.1", "logged in"), logins
        assert how.startswith("tcp, SCRAM-SHA-"), logins
        assert {"account-disabled", "not-authorized"} <= {outcome for who, *_, outcome in logins if who == "eve@localhost"}, logins
        assert re.search(r'data-label="By" lang="en">page<td data-label="From">127.0.0.1<td', log), log
        lines = [json.loads(line) for line in browser.get("/admin/log.jsonl?search=DELETED").text.splitlines()]
        assert lines and all("deleted" in line["act"] and (line["by"], line["address"]) == ("page", "127.0.0.1") for line in lines), lines
        found = browser.get("/admin/log?search=DELETED").text
        assert found.count("deleted an account: eve@localhost") == 1 and "created an account" not in found and "tag off" not in found, found
        page = _do(browser, "admin@localhost", "disable")
        assert "can&#39;t do that to themselves" in page.text, page


async def accounts_are_found():
    async with Rookery("admin", *(f"user{number:03}" for number in range(60)), tables=ADMIN) as server:
        browser = _signed_in(server)
        page = browser.get("/admin/users?search=user")
        assert page.text.count("/admin/user?jid=") == 50 and "1–50 of 60 accounts" in page.text, page
        following = re.search(r'id="next" href="([^"]+)"', page.text).group(1).replace("&amp;", "&")
        page = browser.get(following).text
        assert page.count("/admin/user?jid=user0") == 10 and "51–60 of 60 accounts" in page, page
        back = re.search(r'id="back" href="([^"]+)"', page).group(1).replace("&amp;", "&")
        assert browser.get(back).text.count("/admin/user?jid=user0") == 50
        page = browser.get("/admin/users?search=USER007").text
        assert "user007@localhost" in page and page.count("/admin/user?jid=") == 1
        evil = browser.get("/admin/users?search=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").text
        assert "<script>alert" not in evil and "There is no such account" in evil
        assert browser.get("/admin/users?search=%ff").status == 400


async def accounts_are_sorted_and_chosen():
    async with Rookery("admin", "alice", "bob", "carol", tables=ADMIN) as server:
        browser = _signed_in(server)
        _do(browser, "carol@localhost", "disable")
        for name in ("bob", "alice"):
            async with Person(server, f"{name}@localhost") as person:
                await person.presence(f"{name}@localhost")
                rows = _rows(browser.get("/admin/users").text)
                assert rows[name] == "online", rows
            await person.until(lambda: _rows(browser.get("/admin/users").text)[name] not in ("online", "never"))
        assert list(_rows(browser.get("/admin/users").text)) == ["admin", "alice", "bob", "carol"]
        assert list(_rows(browser.get("/admin/users?order=newest").text)) == ["alice", "bob", "admin", "carol"]
        assert list(_rows(browser.get("/admin/users?order=oldest").text)) == ["admin", "carol", "bob", "alice"]
        assert list(_rows(browser.get("/admin/users?only=administrators").text)) == ["admin"]
        page = browser.get("/admin/users?only=disabled").text
        assert _rows(page) == {"carol": "never"} and "1–1 of 1 account." in page and "tag off" in page, page
        assert list(_rows(browser.get("/admin/users?only=never&search=a").text)) == ["admin", "carol"]
        _is_well_formed(page)
        lines = browser.get("/admin/users.csv?only=never&search=a").text.split("\r\n")
        assert lines[0] == "account,disabled,created,last seen,bytes" and lines[3] == "", lines
        assert re.fullmatch(r'"admin@localhost",false,20\d\d-[^,]+Z,,0', lines[1]) and lines[2].startswith('"carol@localhost",true,'), lines
        assert len(_rows(browser.get("/admin/users?order=youngest").text)) == len(_rows(browser.get("/admin/users?order=largest").text)) == 4
        for nonsense in ("only=x&order=x", "from=-1", "from=99999999999999999999"):
            assert len(_rows(browser.get(f"/admin/users?{nonsense}").text)) == 4, nonsense
        assert "0 of 4 accounts." in browser.get("/admin/users?from=90").text


def _rows(page):
    """The time at which each account of the list was last seen, by name."""
    lines = re.findall(r'<td[^>]*><a href="/admin/user\?jid=([a-z0-9]+)%40.*?<td[^>]*>(.*?)<td', page)
    return {name: re.sub(r"<[^>]*>", "", seen) for name, seen in lines}


async def others_domains_are_not_there():
    async with Rookery("admin", "bob@other.example", top=TWO, tables=ADMIN.replace("[modules.a", '[domain."localhost".modules.a')) as server:
        browser = _signed_in(server)
        for path in ("/users?domain=other.example", "/user?jid=bob%40other.example", "/user?jid=bob%40elsewhere.example"):
            assert browser.get(f"/admin{path}").status == 404, path
        csrf = token(browser.get("/admin/users").text)
        for path, fields in (
            ("/users", {"domain": "other.example", "name": "eve", "password": "geheim12"}),
            ("/user", {"jid": "bob@other.example", "act": "erase", "confirm": "bob@other.example"}),
            ("/user", {"jid": "bob@other.example", "act": "export"}),
            ("/messages", {"domain": "other.example", "act": "announce", "body": "hi"}),
        ):
            assert browser.post(f"/admin{path}", {"csrf": csrf, **fields}).status == 303, path
        assert "other.example" not in browser.get("/admin/domains").text
        async with Person(server, "bob@other.example"):
            pass


async def a_right_that_is_taken_away_is_gone():
    async with Rookery("admin", "boss", tables=ADMIN.replace('"admin@localhost"', '"admin@localhost", "boss@localhost"')) as server:
        browser, boss = _signed_in(server), _signed_in(server, "boss")
        assert _do(boss, "admin@localhost", "disable").status == 200
        assert browser.get("/admin/users").headers.get("location") == "/admin/login"
        server.configure(tables=ADMIN)
        await server.reload()
        assert boss.get("/admin/users").headers.get("location") == "/admin/login"


async def a_new_password_ends_visits():
    async with Rookery("admin", tables=ADMIN) as server:
        here, elsewhere = _signed_in(server), _signed_in(server)
        _do(here, "admin@localhost", "password", password="geheim12")
        assert here.get("/admin/users").status == 200, "the visit in which it was set goes on"
        assert elsewhere.get("/admin/users").headers["location"] == "/admin/login"
        server.command("user", "passwd", "admin@localhost", "--password-stdin", "--allow-short", said="another one\n")
        assert here.get("/admin/users").headers["location"] == "/admin/login"


async def a_domain_speaks_and_invites():
    async with Rookery("admin", "alice", tables=ADMIN) as server, Person(server, "alice@localhost") as alice:
        await alice.presence("alice@localhost")
        browser = _signed_in(server)
        page = browser.send("/admin/messages", {"domain": "localhost", "to": "online", "body": "Back at <noon>\r\nor so", "act": "announce"})
        assert "on its way" in page.text
        await alice.reads("Back at <noon>\nor so", of="localhost")
        page = browser.send("/admin/messages", {"domain": "localhost", "body": "Good <morning>", "act": "motd"})
        assert "Good &lt;morning&gt;" in page.text
        await alice.reads("Good <morning>", of="localhost")
        page = browser.send("/admin/invitations", {"domain": "localhost", "name": "eve", "days": "3", "act": "invite"})
        assert re.search(rf'id="copy">https://localhost:{server.web_tls_port}/invite/[a-z0-9]+<', page.text), page
        page = browser.send("/admin/invitations", {"jid": "alice@localhost", "days": "3", "act": "reset"})
        assert re.search(rf'id="copy">https://localhost:{server.web_tls_port}/reset/[a-z0-9]+<', page.text), page
        assert 'class="qr"' in page.text and page.text.count("<svg") == 1, page
        _is_well_formed(page.text)
        listed = browser.get("/admin/invitations").text
        _is_well_formed(listed)
        assert "eve@localhost<td" in listed and "a new password of alice@localhost<td" in listed, listed
        assert listed.count('value="revoke"') == 2, listed
        # The visitor has created both.
        assert listed.count(">admin@localhost<td") == 2 and "an administrator" not in listed, listed
        [reset] = re.findall(r"/reset/([a-z0-9]+)<", listed)
        for wanted, words in ((reset, "The link was revoked"), (reset, "was used or revoked"), ("x", "was used or revoked")):
            page = browser.send("/admin/invitations", {"token": wanted, "act": "revoke"})
            assert words in page.text and page.text.count('value="revoke"') == 1, page
        assert Browser(server, True).get(f"/reset/{reset}").status == 404
        page = browser.get("/admin/domains").text
        assert "<code>rooms</code>" in page and "allow_creation" in page
        _is_well_formed(page)


async def the_records_of_a_domain_are_shown_with_what_dns_says():
    async with Network() as network:
        tables = ADMIN + f'[federation]\ndns = ["127.0.0.1:{network.dns}"]\n'
        async with Rookery("admin", top=TWO, tables=tables) as server:
            browser, name = _signed_in(server), "_xmpp-client._tcp.other.example."
            assert 'href="/admin/records?domain=other.example"' in browser.get("/admin/domains").text
            for found, mood, state in (
                (None, None, ("tag off", "missing", "no such record")),
                ("0 5 9 far.example.", None, ("tag off", "other", "far.example:9")),
                ("0 5 9 far.example.", "fails", ("tag", "unknown", "no answer")),
            ):
                network.names = {("other.example.", "A"): "127.0.0.1", **({(name, "SRV"): found} if found else {})}
                network.moods = {name: mood} if mood else {}
                page = (await asyncio.to_thread(browser.get, "/admin/records?domain=other.example")).text
                _is_well_formed(page)
                assert "<title>DNS records – Rookery</title>" in page and 'id="summary"' in page, page
                rows = re.findall(r'<span class="([^"]*)">([^<]*)</span><td[^>]*><code>([^<]*)</code><td[^>]*>([^<]*)', page)
                shown = {record: (css, said, dns) for css, said, record, dns in rows}
                assert shown["other.example. IN A (the public address)"] == ("tag on", "there", ""), shown
                # The configuration has port 0, so the system chooses one.
                assert shown[f"{name} IN SRV 0 5 0 other.example."] == state, shown


async def settings_are_found_and_marked():
    async with Rookery("admin", tables=ADMIN + "[modules.archive]\naccount_bytes = 1048576\n") as server:
        browser = _signed_in(server)
        page = browser.get("/admin/domains").text
        assert re.search(r"<code>account_bytes</code><td[^>]*><code>1048576</code> <span class=\"amount\">1 MiB</span> <span class=\"tag on\">not the default", page), page
        _is_well_formed(page)
        page = browser.get("/admin/domains?only=changed").text
        keys = re.findall(r'data-label="Key"><code>([^<]*)', page)
        assert set(keys) == {"account_bytes", "admins"}, keys
        page = browser.get("/admin/domains?search=ACCOUNT_BYTES").text
        assert set(re.findall(r'data-label="Key"><code>([^<]*)', page)) == {"account_bytes"} and "<details open>" in page, page
        evil = browser.get("/admin/domains?search=%22%3E%3Cscript%3E").text
        assert "<script>" not in evil and 'class="modules' not in evil, evil


async def a_room_is_shown_and_destroyed():
    async with Rookery("admin", "alice", tables=ADMIN) as server, Person(server, "alice@localhost") as alice:
        browser = _signed_in(server)
        assert 'id="none"' in browser.get("/admin/rooms").text
        room = "garden@conference.localhost"
        alice.client.send_raw(f"<presence to='{room}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await alice.presence(f"{room}/Alice")
        page = browser.get("/admin/rooms")
        assert room in page.text and re.search(r'data-label="Occupants">1<td data-label="Last message">–', page.text), page
        alice.client.send_raw(f"<message type='groupchat' to='{room}'><body>Anybody here?</body></message>")
        while not re.search(r'data-label="Last message"><time', page.text):
            await asyncio.sleep(0.05)
            page = browser.get("/admin/rooms?order=activity")
        assert '<option value="activity" selected>' in page.text, page
        page = browser.get(f"/admin/room?jid={quote(room)}")
        assert re.search(r"<td[^>]*>Alice<td[^>]*>moderator<td[^>]*>owner<td", page.text) and "alice@localhost/" in page.text, page
        _is_well_formed(page.text)
        page = browser.send("/admin/room", {"jid": room, "confirm": "garden"}, "/admin/rooms")
        assert "to confirm it" in page.text and room in browser.get("/admin/rooms").text
        page = browser.send("/admin/room", {"jid": room, "confirm": room, "reason": "Too <many> weeds"}, "/admin/rooms")
        assert f"{room} was destroyed." in page.text and 'id="none"' in page.text, page
        told = await alice.presence(f"{room}/Alice", "unavailable")
        assert "Too &lt;many&gt; weeds" in str(told) and "destroy" in str(told), told
        assert browser.get(f"/admin/room?jid={quote(room)}").status == 404


async def a_room_is_made_and_changed():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        browser = _signed_in(server)
        page = browser.send("/admin/rooms", {"form": "new-room", "local": "Family", "name": "Family <dinner>", "members": "yes"})
        room = "family@conference.localhost"
        assert f"{room} was created, and you are its owner." in page.text and "Family &lt;dinner&gt;" in page.text, page
        assert "hidden, stays when everybody has left, for members only; 1 affiliation." in page.text, page
        _is_well_formed(page.text)
        page = browser.send("/admin/rooms", {"form": "new-room", "local": "family", "name": "Another"})
        assert f'id="new-room-local-mistake" class="mistake">{room} already exists.' in page.text and 'value="Another"' in page.text, page
        # The room exists after a restart, without occupants.
        await server.stop()
        await server.start()
        browser = _signed_in(server)
        page = browser.get(f"/admin/room?jid={quote(room)}")
        assert 'id="empty"' in page.text and 'name="stays" type="checkbox" value="yes" checked' in page.text, page
        settings = {"form": "settings", "jid": room, "act": "configure", "name": "Family", "description": "Sundays", "stays": "yes", "public": "yes"}
        page = browser.send("/admin/room", settings, f"/admin/room?jid={quote(room)}")
        assert "The settings were saved." in page.text and "public, stays when everybody has left, open" in page.text, page
        async with Person(server, "alice@localhost") as alice:
            alice.client.send_raw(f"<presence to='{room}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
            await alice.presence(f"{room}/Alice")
            # A temporary room exists as long as it has occupants.
            page = browser.send("/admin/room", {**settings, "stays": ""}, f"/admin/room?jid={quote(room)}")
            assert "public, temporary, open" in page.text, page
        await alice.until(lambda: browser.get(f"/admin/room?jid={quote(room)}").status == 404)
        log = browser.get("/admin/log").text
        assert f"made a room: {room}" in log and f"changed the settings of a room: {room}" in log, log


async def several_accounts_are_disabled_at_once():
    async with Rookery("admin", "alice", "bob", "eve", tables=ADMIN) as server:
        browser = _signed_in(server)
        page = browser.get("/admin/users?domain=localhost&order=name").text
        _is_well_formed(page)
        assert page.count('type="checkbox" name="chosen"') == 4, page
        many = [("act", "disable"), ("domain", "localhost"), ("only", "disabled"), ("order", "name")]
        assert "nothing was done: select" in browser.send("/admin/users", many).text.lower()
        async with Person(server, "bob@localhost") as bob:
            chosen = [("chosen", f"{name}@localhost") for name in ("admin", "bob", "eve", "nobody")]
            page = browser.send("/admin/users", [*many, *chosen]).text
            assert "2 accounts were disabled. Unchanged: admin@localhost is your own; there is no account nobody@localhost." in page, page
            # This is the same part of the list.
            assert re.findall(r'name="chosen" value="([^"]*)"', page) == ["bob@localhost", "eve@localhost"], page
            await bob.until(lambda: bob.seen["disconnected"])
        other = [("chosen", "alice@other.example"), ("chosen", "alice@localhost")]
        assert "There is no such address." in browser.send("/admin/users", [*many, *other]).text
        page = browser.send("/admin/users", [("act", "enable"), ("domain", "localhost"), ("chosen", "eve@localhost")]).text
        assert "1 account was enabled." in page and page.count('tag off">disabled') == 1, page
        log = browser.get("/admin/log").text
        assert "disabled an account: bob@localhost" in log and "re-enabled an account: eve@localhost" in log, log


async def sessions_are_listed_and_ended():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        browser = _signed_in(server)
        assert 'id="none"' in browser.get("/admin/sessions").text
        async with Person(server, "alice@localhost") as alice:
            await alice.presence("alice@localhost")
            page = browser.get("/admin/sessions")
            _is_well_formed(page.text)
            assert "127.0.0.1" in page.text and "available, priority 0" in page.text, page
            assert re.search(r'data-label="By">TCP, (no )?TLS<td data-label="Connected"><time class="away" datetime="20', page.text), page
            session = re.search(r'name="session" value="([^"]+)"', page.text).group(1)
            page = browser.send("/admin/sessions", {"session": session})
            assert f"{session} was ended." in page.text, page
            await alice.until(lambda: alice.seen["disconnected"])
        page = browser.send("/admin/sessions", {"session": session})
        assert "There is no such session." in page.text, page


async def a_lost_session_tells_until_when_it_is_waited_for():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        browser = _signed_in(server)
        alice = await _phone(server)
        caps = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://www.gajim.org/' ver='x'/>"
        alice.client.send_raw(f"<presence>{caps}</presence>")
        await alice.until(lambda: 'data-label="Client">gajim.org<' in browser.get("/admin/sessions").text)
        assert "gajim.org" in server.command("session", "list")
        alice.client.transport.abort()
        lost = r'data-label="State">connection lost <time class="away" datetime="([^"]+)">[^<]*</time>, waits for its client until <time class="away" datetime="([^"]+)"'
        await alice.until(lambda: re.search(lost, browser.get("/admin/sessions").text))
        since, until = re.search(lost, browser.get("/admin/user?jid=alice%40localhost").text).groups()
        assert since < until, (since, until)
        listed = json.loads(server.command("session", "list", "--json"))
        assert (listed["lost"], listed["waits_until"], listed["address"]) == (since, until, None), listed
        await alice.logout()


async def a_refused_form_comes_back_as_it_was_typed():
    async with Rookery("admin", "alice", tables=ADMIN) as server:
        browser = _signed_in(server)
        form = {"form": "new-user", "name": "Alice", "password": "long enough", "domain": "localhost"}
        page = browser.send("/admin/users", form).text
        _is_well_formed(page)
        field = re.search(r'<input id="new-user-name"[^>]*>', page).group()
        assert 'value="Alice"' in field and 'aria-invalid="true"' in field and 'aria-describedby="new-user-name-mistake"' in field, field
        assert '<p id="new-user-name-mistake" class="mistake">alice@localhost already exists.</p>' in page, page
        assert '<a href="#new-user-name">alice@localhost already exists.</a>' in page and "long enough" not in page, page
        assert 'class="mistake"' not in browser.get("/admin/users").text, "it is said once"
        page = browser.send("/admin/users", {**form, "name": "carol", "password": "short"}).text
        assert 'value="carol"' in page and "A password has at least 8 characters." in page and 'aria-describedby="new-user-password-mistake new-user-password-hint"' in page, page
        for name in ("carol", "dave@localhost"):
            page = browser.send("/admin/users", {**form, "name": name}).text
            assert f"{name.split('@')[0]}@localhost was created." in page, page
        page = browser.send("/admin/invitations", {"form": "invite", "domain": "localhost", "name": "eve", "days": "0", "act": "invite"}).text
        assert 'id="invite-days-mistake"' in page and 'id="invite-name" name="name" value="eve"' in page, page
        page = browser.send("/admin/invitations", {"form": "reset", "jid": "nobody", "days": "2", "act": "reset"}).text
        assert 'id="reset-jid-mistake" class="mistake">There is no account nobody@localhost.' in page and 'value="nobody"' in page, page
        page = browser.send("/admin/user", {"form": "erase", "jid": "alice@localhost", "act": "erase", "confirm": "al"}, "/admin/users").text
        assert "<details open><summary>Erase" in page and 'id="erase-confirm-mistake"' in page, page


async def an_announcement_to_all_asks_first():
    async with Rookery("admin", "alice", "bob", tables=ADMIN) as server, Person(server, "alice@localhost") as alice:
        await alice.presence("alice@localhost")
        browser = _signed_in(server)
        form = {"form": "announce", "domain": "localhost", "to": "all", "subject": "", "body": "Tea & cake", "act": "announce"}
        page = browser.send("/admin/messages", form).text
        _is_well_formed(page)
        assert "This goes to 3 accounts: check the box below and send it again." in page and ">Tea &amp; cake</textarea>" in page, page
        assert 'name="sure" type="checkbox"' in page and '<option value="all" selected>' in page, page
        page = browser.send("/admin/messages", {**form, "sure": "yes"}).text
        assert "The announcement is on its way to 3 accounts." in page, page
        assert re.search(r'id="announcements".*admin@localhost<td[^>]*>localhost<td[^>]*>all accounts \(3\)<td[^>]*>Tea &amp; cake', page, re.S), page
        await alice.reads("Tea & cake", of="localhost")


REPORT = (
    "<iq type='set' id='{id}'><block xmlns='urn:xmpp:blocking'><item jid='{about}'><report xmlns='urn:xmpp:reporting:1' "
    "reason='urn:xmpp:reporting:{reason}'><text>{text}</text></report></item></block></iq>"
)


async def abuse_is_reported_and_dealt_with():
    async with Rookery("admin", "alice", "mallory", tables=ADMIN) as server:
        browser = _signed_in(server)
        page = browser.get("/admin/reports").text
        assert 'id="none"' in page and 'class="count"' not in page, page
        async with Person(server, "alice@localhost") as alice:
            reports = (("mallory@localhost", "abuse", "Rude &lt;words&gt;"), ("spam.example", "spam", "Pills"), ("mallory@localhost", "spam", ""))
            for number, (about, reason, text) in enumerate(reports, 1):
                alice.client.send_raw(REPORT.format(id=number, about=about, reason=reason, text=text))
                await alice.until(lambda: f'<span class="count">{number}</span>' in browser.get("/admin/reports").text)
        page = browser.get("/admin/reports").text
        _is_well_formed(page)
        assert "<blockquote>Rude &lt;words&gt;</blockquote>" in page and page.count("Disable mallory@localhost") == 2, page
        assert "3 abuse reports are waiting for you in the tab Reports." in browser.get("/admin").text
        secret = server.command("token", "add", "moderator", "--scope", "reports:read,reports:write").strip()
        asked = {"Authorization": f"Bearer {secret}"}
        listed = browser.get("/api/v1/domains/localhost/reports", asked).json["items"]
        assert [(report["reporter"], report["reported"]) for report in listed] == [("alice@localhost", about) for about, *_ in reports], listed
        assert listed[1]["reason"] == "urn:xmpp:reporting:spam" and listed[1]["text"] == "Pills", listed
        of_domain, path = listed[1]["id"], "/api/v1/domains/localhost/reports/"
        page = browser.send("/admin/reports", {"domain": "localhost", "report": of_domain, "act": "disable"}).text
        assert "There is no account spam.example in your domains." in page, page
        assert [browser.ask("DELETE", path + quote(of_domain), asked).status for _ in range(2)] == [204, 404]
        page = browser.send("/admin/reports", {"domain": "localhost", "report": listed[0]["id"], "act": "disable"}).text
        assert "Reports about it that this settled: 2." in page and 'id="none"' in page, page
        await is_refused(server, "mallory@localhost", "secret", "account-disabled")
        page = browser.send("/admin/reports", {"domain": "localhost", "report": listed[0]["id"], "act": "dismiss"}).text
        assert "Somebody has dealt with this report already." in page, page
        assert "disabled an account: mallory@localhost" in browser.get("/admin/log").text


async def components_are_shown_and_closed():
    tables = ADMIN + '[component."echo.localhost"]\nsecret = "a secret of components"\n'
    async with Rookery("admin", listen='components = ["127.0.0.1:0"]', tables=tables) as server:
        browser = _signed_in(server)
        assert "There is no stream at the moment" in browser.get("/admin/servers").text
        port = int((await server.says(r"\S+:(\d+) \(components\)"))[1])
        component = ComponentXMPP("echo.localhost", "a secret of components", "127.0.0.1", port)
        component.connect()
        await server.says("a component is connected")
        page = browser.get("/admin/servers")
        _is_well_formed(page.text)
        shown = re.sub(r" (data-label|lang)=\"[^\"]*\"", "", page.text)
        assert "<td>echo.localhost" in shown and "<td>component<td>ready<td>secret<td>127.0.0.1:" in shown, page.text
        # The component's stream is closed, and slixmpp connects again by itself.
        answer = browser.post("/admin/servers", {"csrf": token(page.text), "server": "echo.localhost"})
        assert answer.status == 303, answer
        await server.says("a component has disconnected")
        assert "closed: 1" in browser.get("/admin/servers").text
        assert "closed 1 stream with echo.localhost" in browser.get("/admin/log").text
        component.cancel_connection_attempt()
        await component.disconnect(wait=1)


async def the_page_is_for_those_who_may_come_here():
    async with Rookery("admin", tables=ADMIN) as server:
        for name in ("X-Forwarded-For", "X-Real-IP"):
            assert Browser(server).get("/admin/login", {name: "127.0.0.1"}).status == 403, "by a proxy that nobody named"
    async with Rookery("admin", tables=ADMIN + "[web]\nadmin_networks = []\n") as server:
        assert Browser(server).get("/admin/login").status == 403
    async with Rookery("admin", tables=ADMIN + '[web]\ntrusted_proxies = ["127.0.0.1"]\nadmin_networks = ["192.0.2.0/24"]\n') as server:
        assert Browser(server).get("/admin/login", {"X-Forwarded-For": "192.0.2.1"}).status == 403, "without TLS"
        encrypted = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        assert Browser(server).get("/admin/login", encrypted).status == 200
        assert Browser(server).get("/admin/login", {**encrypted, "X-Forwarded-For": "198.51.100.1"}).status == 403


def _signed_in(server, name="admin"):
    browser = Browser(server)
    answer = browser.post("/admin/login", {"name": name, "password": "secret"})
    assert answer.status == 303 and answer.headers["location"] == "/admin", answer
    return browser


def _post(browser, jid, act, **fields):
    """Sends a form of an account's page."""
    page = browser.get("/admin/users")
    return browser.post("/admin/user", {"csrf": token(page.text), "jid": jid, "act": act, **fields})


def _do(browser, jid, act, **fields):
    """Sends a form of an account's page, and returns the page that it leads to."""
    answer = _post(browser, jid, act, **fields)
    assert answer.status == 303, answer
    return browser.get(answer.headers["location"])


def _is_well_formed(page):
    """Asserts that every tag is closed, except void elements."""
    void = {"meta", "link", "input", "line"}
    optional = {"td", "th"}
    open_tags = []
    for closing, name, rest in re.findall(r"<(/?)([a-z][a-z0-9]*)((?:\"[^\"]*\"|[^>\"])*)>", page):
        if not closing:
            if name not in void and not rest.endswith("/"):
                while name in optional and open_tags[-1] in optional:
                    open_tags.pop()
                open_tags.append(name)
            continue
        while open_tags and open_tags[-1] in optional and open_tags[-1] != name:
            open_tags.pop()
        assert open_tags and open_tags[-1] == name, (name, open_tags)
        open_tags.pop()
    assert not open_tags, open_tags
