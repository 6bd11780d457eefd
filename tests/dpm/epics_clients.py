"""Reads EPICS process variables, of the soft IOC from EPICS base and of caproto, with unmodified
pacsys.
"""

import contextlib
import tempfile

from pacsys.auth import KerberosAuth

import iocs
import rookery
import variables
from variables import metrics as _metrics
from variables import read as _read

# Name of the device, variable, further keys, whether it can be set.
SOFT = [
    ("E:MAGNET", "SOFT:MAGNET", 'units = "A"', True),
    ("E:VALVE", "SOFT:VALVE", "primary = 68", True),
    ("E:POSITN", "SOFT:VALVE", "", False),
    ("E:NOTE", "SOFT:NOTE", "primary = 68", True),
    ("E:COUNT", "SOFT:COUNT", "", False),
    ("E:WAVE", "SOFT:WAVE", "size = 64\ndefault_size = 64", True),
    ("E:NEVER", "SOFT:NEVER", "", False),
    ("E:MISSNG", "SOFT:NOBODY", "", False),
]
CAPROTO = [
    ("E:CURRNT", "PY:CURRENT", 'units = "mA"', True),
    ("E:MODE", "PY:MODE", "primary = 68", True),
    ("E:WAVE", "PY:WAVE", "size = 48\ndefault_size = 48", False),
    ("E:BEAT", "PY:BEAT", "", False),
    ("E:TEXT", "PY:TEXT", "primary = 68", False),
]


def numbers_texts_and_choices_are_read():
    with _served(iocs.soft(), SOFT) as (service, _), service.dpm() as backend:
        assert _read(backend, "E:MAGNET") == 2.5
        assert _read(backend, "E:VALVE") == "Closed"
        assert _read(backend, "E:POSITN") == 0
        assert _read(backend, "E:NOTE") == "all is well"
        # This record was never processed: its value is undefined, which its alarm says.
        never = backend.get("E:NEVER@I")
        assert (never.facility_code, never.error_code) == (14, -35), never
        info = backend.get("E:MAGNET@I")
        assert (info.meta.name, info.meta.units) == ("E:MAGNET", "A"), info


def a_server_of_caproto_is_read():
    with _served(iocs.caproto(), CAPROTO) as (service, _), service.dpm() as backend:
        assert _read(backend, "E:CURRNT") == 401.5
        assert _read(backend, "E:MODE") == "Decay"
        assert _read(backend, "E:TEXT") == "hello"
        assert list(_read(backend, "E:WAVE")) == [1, 2, 3, 4]
        assert list(_read(backend, "E:WAVE[1:2]")) == [2, 3]


def changes_are_told_as_they_come_and_periods_are_kept():
    with _served(iocs.caproto(), CAPROTO) as (service, _), service.dpm() as backend:
        with backend.subscribe(["E:BEAT@q,50", "E:CURRNT@p,200"]) as stream:
            beats, currents = [], []
            for reading, _ in stream.readings(timeout=rookery.PATIENCE):
                assert reading.ok, reading
                (beats if "BEAT" in reading.drf else currents).append(reading.value)
                if len(beats) >= 20 and len(currents) >= 3:
                    break
        assert beats == sorted(set(beats)), beats
        # This value never changes, but is delivered all the same.
        assert set(currents) == {401.5}, currents


def a_variable_is_monitored_once_for_all_readers():
    with _served(iocs.caproto(), CAPROTO) as (service, _), contextlib.ExitStack() as stack:
        for _ in range(5):
            stream = stack.enter_context(stack.enter_context(service.dpm()).subscribe(["E:BEAT@q,50"]))
            next(iter(stream.readings(timeout=rookery.PATIENCE)))
        metrics = _metrics(service)
        assert metrics["rookery_dpm_variables"] == 1, metrics
        assert metrics["rookery_dpm_circuits"] == 1, metrics
        assert metrics["rookery_dpm_asked_total"] == 5 and metrics["rookery_dpm_shared_total"] == 4, metrics
        assert metrics["rookery_dpm_devices_requested_total"] == 1, metrics


def what_nobody_has_is_silent_and_hides_nothing():
    with _served(iocs.soft(), SOFT) as (service, _), service.dpm() as backend:
        reading = backend.get("E:MISSNG")
        assert (reading.facility_code, reading.error_code) == (1, -49), reading
        assert _read(backend, "E:MAGNET") == 2.5


def name_servers_are_asked_over_tcp():
    with _served(iocs.soft(), SOFT, "name_servers") as (service, _), service.dpm() as backend:
        assert _read(backend, "E:MAGNET") == 2.5
        assert _read(backend, "E:VALVE") == "Closed"


def a_server_that_dies_is_told_and_found_again():
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as folder, contextlib.ExitStack() as stack:
        first = stack.enter_context(iocs.soft())
        devices = variables.devices(folder, "CA", SOFT, first.port, "search")
        service = stack.enter_context(rookery.with_database(devices))
        stream = stack.enter_context(stack.enter_context(service.dpm()).subscribe(["E:COUNT@q,100"]))
        readings = (reading for reading, _ in stream.readings(timeout=rookery.PATIENCE))
        assert next(readings).ok
        first.kill()
        dead = next(reading for reading in readings if not reading.ok)
        assert (dead.facility_code, dead.error_code) == (1, -42), dead
        stack.enter_context(iocs.soft(first.port))
        assert next(reading for reading in readings if reading.ok).value >= 0


def variables_are_set_by_those_who_may():
    with _served(iocs.soft(), SOFT, settings=True) as (service, _), rookery.ticket(service, "operator"):
        with service.dpm(auth=KerberosAuth(), role="testing") as backend:
            for drf, value in [("E:MAGNET", 7.25), ("E:VALVE", "Open"), ("E:NOTE", "a note"), ("E:WAVE", [1.5, 2.5])]:
                request = f"{drf}[0:1]" if isinstance(value, list) else drf
                result = backend.write(request, value)
                assert result.success, (drf, result)
            assert _read(backend, "E:MAGNET") == 7.25
            assert _read(backend, "E:VALVE") == "Open" and _read(backend, "E:POSITN") == 1
            assert _read(backend, "E:NOTE") == "a note"
            assert list(_read(backend, "E:WAVE[0:1]")) == [1.5, 2.5]
            # Without the check, the record would be set to 10 and report success.
            refused = backend.write("E:MAGNET", 99.0)
            assert (refused.facility_code, refused.error_code) == (14, -58), refused
            assert _read(backend, "E:MAGNET") == 7.25
        lines = service.attempts()
        assert any("E:MAGNET" in line and "7.25" in line for line in lines), lines


def _served(ioc, variables_of_it, key="search", settings=False):
    return variables.served("CA", ioc, variables_of_it, key, settings)
