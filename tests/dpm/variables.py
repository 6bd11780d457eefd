"""Starts a service whose devices are EPICS process variables, for a scenario."""

import contextlib
import pathlib
import tempfile
import urllib.request

import rookery

DEVICE = """
[[device]]
index = {index}
name = "{name}"
[device.reading]
node = "EPICS"
pv = "{variable}"
{reading}
"""

SETTING = """
[device.setting]
node = "EPICS"
pv = "{variable}"
{reading}
"""


def devices(folder, protocol, variables, port, key):
    """A database file of variables, each given as the device's name, the variable's name, further
    keys, and whether it can be set.
    """
    text = f'[[node]]\nname = "EPICS"\nprotocol = "{protocol}"\n{key} = ["127.0.0.1:{port}"]\n'
    for index, (name, variable, reading, can_be_set) in enumerate(variables, 1):
        for part in [DEVICE] + [SETTING] * can_be_set:
            text += part.format(index=index, name=name, variable=variable, reading=reading)
    path = pathlib.Path(folder) / "devices.toml"
    path.write_text(text)
    return path


@contextlib.contextmanager
def served(protocol, ioc, variables, key="search", settings=False):
    """A service whose devices are variables of this server."""
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as folder, ioc as server:
        path = devices(folder, protocol, variables, server.tcp if key == "name_servers" else server.port, key)
        opened = rookery.with_settings(path, front_ends=False) if settings else rookery.with_database(path)
        with opened as service:
            yield service, server


def read(backend, drf):
    """Returns the value of a device as soon as the service has found its variable."""
    reading = backend.get(f"{drf}@I")
    assert reading.ok, reading
    return reading.value


def metrics(service):
    with urllib.request.urlopen(f"http://{service.host}:{service.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}
