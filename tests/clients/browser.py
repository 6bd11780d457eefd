"""A plain HTTP client without script, which keeps cookies as a browser does."""

import http.client
import json
import re
import ssl
from html import unescape
from urllib.parse import urlencode


class Answer:
    """The status, headers (names in lower case, the last value of each) and body of a response."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}
        self.cookies = [value for name, value in headers if name.lower() == "set-cookie"]

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:2000]!r}"


class Browser:
    """`Browser(server).get("/admin")`. Each request has its own connection."""

    def __init__(self, server, tls=False):
        self.server, self.tls, self.cookies = server, tls, {}

    def ask(self, method, path, headers=None, body=None):
        if self.tls:
            trusted = ssl.create_default_context(cafile=self.server.certificate)
            connection = http.client.HTTPSConnection("localhost", self.server.web_tls_port, timeout=20, context=trusted)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.web_port, timeout=20)
        headers = dict(headers or {})
        if self.cookies:
            headers.setdefault("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()
        for cookie in answer.cookies:
            name, _, rest = cookie.partition("=")
            value = rest.split(";")[0]
            self.cookies[name] = value
            if not value or "max-age=0" in rest.lower():
                del self.cookies[name]
        return answer

    def get(self, path, headers=None):
        return self.ask("GET", path, headers)

    def post(self, path, fields, headers=None):
        """Sends a form."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return self.ask("POST", path, headers, urlencode(fields))

    def send(self, path, fields, page=None):
        """Sends a form of a page (at `page`, or at `path`) with the page's token, and follows
        redirects.
        """
        shown = self.get(page or path)
        assert shown.status == 200, shown
        pairs = fields.items() if isinstance(fields, dict) else fields
        answer = self.post(path, [("csrf", token(shown.text)), *pairs])
        assert answer.status == 303, answer
        return self.get(answer.headers["location"])


def token(page):
    """The token that the forms of a page carry."""
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found, page
    return unescape(found.group(1))
