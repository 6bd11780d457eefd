"""Runs one scenario, or lists them all.

    python run.py --list
    python run.py pacsys_clients.one_device_is_read

A scenario is a function of one of the modules below whose name has no underscore in front. ROOKERY
names the binary of the server. ACSYS is the folder that acsys-python is in, if there is one.
"""

import faulthandler
import importlib
import inspect
import os
import sys

sys.path.append(os.environ.get("ACSYS", ""))
MODULES = [
    "pacsys_clients", "acsys_clients", "history_clients", "grpc_clients", "epics_clients", "pva_clients",
    "gateway_clients", "pva_gateway_clients", "mqtt_clients",
]
# This limit measures nothing: it ends a scenario that would wait for ever.
PATIENCE = 180


def scenarios():
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            assert missing.name == "acsys", missing
            continue
        for function in vars(module).values():
            own = getattr(function, "__module__", None) == name
            if own and inspect.isfunction(function) and not function.__name__.startswith("_"):
                yield f"{name}.{function.__name__}"


def main(argument):
    if argument == "--list":
        print(*scenarios(), sep="\n")
        return
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    module, _, function = argument.partition(".")
    getattr(importlib.import_module(module), function)()


if __name__ == "__main__":
    main(*sys.argv[1:])
