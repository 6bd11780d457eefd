"""Drives headless Chromium by its DevTools protocol over a pipe, as a person uses a browser. """

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

# The longest wait for anything that must arrive, in seconds.
PATIENCE = 40


class Chromium:
    """`async with Chromium(server) as chromium`: a browser with its own profile, which trusts the
    server's certificate. `arguments` are added to its command line.
    """

    def __init__(self, server, *arguments):
        self.server, self.arguments = server, arguments
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-chromium-"))
        self.waiting, self.pages, self.number = {}, {}, 0

    async def __aenter__(self):
        # On a busy machine it sometimes ends before its first answer, which says nothing about the server.
        try:
            await self._start()
        except ConnectionError:
            self._end()
            await self._start()
        return self

    async def _start(self):
        """Starts the browser, and waits for its first answer."""
        # Chromium reads descriptor 3 and writes descriptor 4 with --remote-debugging-pipe.
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        arguments = [
            "chromium", "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder / 'profile'}", "--no-first-run", "--disable-gpu",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1",
            f"--ignore-certificate-errors-spki-list={_key_hash(self.server.certificate)}", *self.arguments,
        ]
        if os.geteuid() == 0:
            # Chromium's sandbox refuses to run as root.
            arguments.append("--no-sandbox")
        # A shell renumbers the descriptors to 3 and 4.
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *arguments], pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, start_new_session=True,
        )
        os.close(theirs_in), os.close(theirs_out)
        self.out = os.fdopen(ours_out, "wb", buffering=0)
        reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb"))
        self.listening = asyncio.create_task(self._listen(reader))
        await self.ask("Browser.getVersion")

    def _end(self):
        self.process.kill()
        self.process.wait()
        self.listening.cancel()
        self.out.close()
        self.log.close()
        print("Chromium's own log:", (self.folder / "log").read_text(errors="replace")[-2000:])

    async def __aexit__(self, kind, *_):
        try:
            if kind is not None:
                for page in self.pages.values():
                    print(f"What {page.name} said:", *page.said[-30:], sep="\n  ")
            await asyncio.wait_for(self.ask("Browser.close"), 10)
            await asyncio.get_running_loop().run_in_executor(None, self.process.wait, 10)
        except (asyncio.TimeoutError, subprocess.TimeoutExpired, ConnectionError):
            self.process.kill()
            self.process.wait()
        finally:
            self.listening.cancel()
            self.out.close()
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    async def page(self, name, width=1100, height=800):
        """A page with its own profile, as on another person's machine."""
        context = (await self.ask("Target.createBrowserContext"))["browserContextId"]
        target = await self.ask("Target.createTarget", url="about:blank", browserContextId=context, width=width, height=height)
        attached = await self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = self.pages[attached["sessionId"]] = Page(self, name, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "DOM", "Log"):
            await page.ask(f"{domain}.enable")
        return page

    async def ask(self, method, session=None, **parameters):
        self.number += 1
        answer = self.waiting[self.number] = asyncio.get_running_loop().create_future()
        request = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        self.out.write(json.dumps(request).encode() + b"\0")
        return await asyncio.wait_for(answer, PATIENCE)

    async def _listen(self, reader):
        try:
            while True:
                told = json.loads((await reader.readuntil(b"\0"))[:-1])
                if "id" not in told:
                    page = self.pages.get(told.get("sessionId"))
                    if page:
                        page.hear(told["method"], told["params"])
                    continue
                answer = self.waiting.pop(told["id"])
                if not answer.done():
                    error = told.get("error")
                    answer.set_exception(RuntimeError(error)) if error else answer.set_result(told["result"])
        except asyncio.IncompleteReadError:
            for answer in self.waiting.values():
                answer.done() or answer.set_exception(ConnectionError("Chromium has ended"))


class Page:
    """A page that a person looks at. `said` has the complaints of scripts and the browser,
    `sockets` the WebSockets that it opened, `requests` everything that it tried to load, and
    `refused` the part of that which its policy blocked.
    """

    def __init__(self, chromium, name, session):
        self.chromium, self.name, self.session = chromium, name, session
        self.said, self.sockets, self.requests, self.refused, self.asked = [], [], [], [], {}

    def hear(self, method, told):
        if method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(told["exceptionDetails"])[:1000])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(f"{told['type']}: {json.dumps([argument.get('value', argument.get('description')) for argument in told['args']])[:500]}")
        elif method == "Log.entryAdded":
            self.said.append(f"{told['entry']['source']}: {told['entry']['text']}")
        elif method == "Network.webSocketCreated":
            self.sockets.append(told["url"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
            self.asked[told["requestId"]] = told["request"]["url"]
        elif method == "Network.loadingFailed" and told.get("blockedReason") == "csp":
            self.refused.append(self.asked.get(told["requestId"]))

    async def ask(self, method, **parameters):
        return await self.chromium.ask(method, self.session, **parameters)

    async def open(self, url):
        await self.ask("Page.navigate", url=url)

    async def run(self, script):
        """Evaluates an expression in the page."""
        result = await self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, script):
        """Waits until an expression is true, and returns its value."""
        async def wait():
            while True:
                try:
                    value = await self.run(script)
                except AssertionError:
                    value = None
                except RuntimeError as error:
                    # The page was left during the evaluation.
                    if "navigated" not in str(error):
                        raise
                    value = None
                if value:
                    return value
                await asyncio.sleep(0.05)
        try:
            return await asyncio.wait_for(wait(), PATIENCE)
        except asyncio.TimeoutError:
            seen = await self.run("document.body.innerText")
            raise TimeoutError(f"{self.name} never saw {script}, but:\n{seen[:3000]}") from None

    async def sees(self, text, within="body"):
        """Waits until an element shows a text."""
        await self.until(f"[...document.querySelectorAll({json.dumps(within)})].some(e => e.innerText.includes({json.dumps(text)}))")

    async def click(self, selector):
        """Clicks an element once it is visible."""
        element = f"document.querySelector({json.dumps(selector)})"
        await self.until(f"Boolean({element}?.offsetParent)")
        await self.run(f"{element}.scrollIntoView({{block: 'center'}}), {element}.click()")

    async def type(self, selector, text, enter=False):
        """Types into a field, as from a keyboard."""
        element = f"document.querySelector({json.dumps(selector)})"
        await self.until(f"{element} !== null")
        await self.run(f"{element}.focus()")
        await self.ask("Input.insertText", text=text)
        if enter:
            for kind in ("keyDown", "keyUp"):
                await self.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")

    async def choose_file(self, selector, path):
        """Chooses a file for a field, as its dialogue would."""
        node = await self.ask("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        await self.ask("DOM.setFileInputFiles", files=[str(path)], objectId=node["result"]["objectId"])

    async def size(self, width, height, mobile=False):
        await self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    async def colours(self, scheme):
        """Sets the colour scheme of the person's system, `light` or `dark`."""
        await self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def picture(self, path):
        """Writes a screenshot as PNG, or as WebP, which is smaller, depending on the file's
        extension.
        """
        form = {"format": "webp", "quality": 60} if Path(path).suffix == ".webp" else {"format": "png"}
        shot = await self.ask("Page.captureScreenshot", optimizeForSpeed=False, **form)
        Path(path).write_bytes(base64.b64decode(shot["data"]))


def _key_hash(certificate):
    """The SHA-256 of a certificate's public key in Base64, which makes Chromium trust it. """
    key = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return base64.b64encode(digest.finalize()).decode()
