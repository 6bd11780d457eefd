"""Runs one scenario, or lists them all.

    python run.py --list
    python run.py login.starttls_is_verified

A scenario is an asynchronous function of one of the modules below whose name has no underscore in
front. It says what a user does and asserts what the user sees. ROOKERY names the binary of the
server.
"""

import asyncio
import importlib
import inspect
import io
import logging
import os
import sys
import traceback

from slixmpp.exceptions import IqTimeout

MODULES = [
    "login", "contacts", "privacy", "messages", "mobile", "archive", "services", "multicast", "rooms", "pubsub", "bytestreams", "data", "web", "api", "admin", "bosh",
    "pages", "guests", "gallery", "registration", "administration", "domains", "operation", "certificates", "terminal", "others", "aio", "moving", "foreign", "federation", "components",
    "examples",
]
# This limit measures nothing: it ends a scenario that would wait for ever.
PATIENCE = 150
# The exit code of a scenario that ran out of time, as a whole or in one wait. On a busy machine
# this says little, and the caller tries it once more. A wrong result is a failure at once.
OUT_OF_TIME = os.EX_TEMPFAIL


def scenarios():
    for name in MODULES:
        module = importlib.import_module(name)
        for function in vars(module).values():
            own = getattr(function, "__module__", None) == name
            if own and inspect.iscoroutinefunction(function) and not function.__name__.startswith("_"):
                yield f"{name}.{function.__name__}", function


def main(argument):
    if argument == "--list":
        for name, _ in scenarios():
            print(name)
        return 0
    module, _, function = argument.partition(".")
    wire = io.StringIO()
    logging.basicConfig(level=logging.DEBUG, stream=wire, format="%(relativeCreated)6d %(name)s %(message)s")
    try:
        asyncio.run(asyncio.wait_for(getattr(importlib.import_module(module), function)(), PATIENCE))
    except BaseException as error:
        print("What the clients said and heard, the end of it:", *wire.getvalue()[-20_000:].splitlines(), sep="\n  ")
        if not isinstance(error, (TimeoutError, IqTimeout)):
            raise
        traceback.print_exc()
        return OUT_OF_TIME
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
