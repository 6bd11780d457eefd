"""Reads and sets MQTT topics with unmodified pacsys, on the broker mosquitto."""

import contextlib
import datetime
import ipaddress
import pathlib
import subprocess
import tempfile
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pacsys.auth import KerberosAuth

import iocs  # noqa: F401  (it knows where the ports are)
import rookery
from epics_clients import _metrics, _read
from ports import free_port

DEVICES = """
[[node]]
name = "HALL"
protocol = "MQTT"
broker = "127.0.0.1:{port}"
{access}

[[device]]
index = 1
name = "E:TEMP"
[device.reading]
node = "HALL"
topic = "hall/temp"
units = "DegC"
[device.setting]
node = "HALL"
topic = "hall/temp/set"
retain = true

[[device]]
index = 2
name = "E:HUMID"
[device.reading]
node = "HALL"
topic = "hall/air"
json = "/humidity"

[[device]]
index = 3
name = "E:DOOR"
[device.reading]
node = "HALL"
topic = "hall/door"
primary = 68
[device.setting]
node = "HALL"
topic = "hall/door"
primary = 68
retain = true

[[device]]
index = 4
name = "E:WAVE"
[device.reading]
node = "HALL"
topic = "hall/wave"
size = 64
default_size = 64
[device.setting]
node = "HALL"
topic = "hall/wave"
size = 64
default_size = 64

[[device]]
index = 5
name = "E:ECHO"
[device.reading]
node = "HALL"
topic = "hall/temp/set"
"""


def numbers_texts_and_arrays_are_read_as_the_broker_keeps_them():
    with _broker() as broker:
        broker.publish("hall/temp", "21.5", retain=True)
        broker.publish("hall/air", '{"humidity": 40, "pressure": 1013}', retain=True)
        broker.publish("hall/door", "shut", retain=True)
        broker.publish("hall/wave", "[1, 2.5, 3]", retain=True)
        with broker.served() as service, service.dpm() as backend:
            assert _read(backend, "E:TEMP") == 21.5
            assert _read(backend, "E:HUMID") == 40
            assert _read(backend, "E:DOOR") == "shut"
            assert list(_read(backend, "E:WAVE")) == [1, 2.5, 3]
            assert list(_read(backend, "E:WAVE[1:2]")) == [2.5, 3]
            info = backend.get("E:TEMP@I")
            assert (info.meta.name, info.meta.units) == ("E:TEMP", "DegC"), info


def changes_are_told_as_they_come_once_subscribed_for_all_readers():
    with _broker() as broker, broker.served() as service, contextlib.ExitStack() as stack:
        broker.publish("hall/temp", "0", retain=True)
        streams = []
        for _ in range(5):
            stream = stack.enter_context(stack.enter_context(service.dpm()).subscribe(["E:TEMP@q,50"]))
            streams.append(reading for reading, _ in stream.readings(timeout=rookery.PATIENCE))
        assert all(next(stream).value == 0 for stream in streams)
        for number in range(1, 6):
            broker.publish("hall/temp", str(number))
            assert [next(stream).value for stream in streams] == [number] * 5
        metrics = _metrics(service)
        assert metrics["rookery_dpm_topics"] == metrics["rookery_dpm_brokers"] == 1, metrics
        assert metrics["rookery_dpm_devices_requested_total"] == 1, metrics


def a_topic_of_which_nothing_comes_is_silent_and_hides_nothing():
    with _broker() as broker, broker.served() as service, service.dpm() as backend:
        broker.publish("hall/temp", "21.5", retain=True)
        reading = backend.get("E:DOOR")
        assert (reading.facility_code, reading.error_code) == (1, -49), reading
        assert _read(backend, "E:TEMP") == 21.5
        broker.publish("hall/air", "no JSON", retain=True)
        reading = backend.get("E:HUMID@I")
        assert (reading.facility_code, reading.error_code) == (14, -35), reading


def a_broker_that_dies_is_told_and_found_again():
    with _broker() as broker, contextlib.ExitStack() as stack:
        broker.publish("hall/temp", "21.5", retain=True)
        service = stack.enter_context(broker.served())
        stream = stack.enter_context(stack.enter_context(service.dpm()).subscribe(["E:TEMP@q,100"]))
        readings = (reading for reading, _ in stream.readings(timeout=rookery.PATIENCE))
        assert next(readings).value == 21.5
        broker.kill()
        dead = next(reading for reading in readings if not reading.ok)
        assert (dead.facility_code, dead.error_code) == (1, -42), dead
        broker.start()
        broker.publish("hall/temp", "22.5", retain=True)
        assert next(reading for reading in readings if reading.ok).value == 22.5


def topics_are_set_by_those_who_may():
    with _broker() as broker, broker.served(settings=True) as service, rookery.ticket(service, "operator"):
        with service.dpm(auth=KerberosAuth(), role="testing") as backend:
            for drf, value in [("E:TEMP", 19.0), ("E:DOOR", "open")]:
                result = backend.write(drf, value)
                assert result.success, (drf, result)
            # The broker retains both messages.
            assert _read(backend, "E:ECHO") == 19
            assert _read(backend, "E:DOOR") == "open"
            assert broker.kept("hall/temp/set") == "19"
            broker.kill()
            lost = backend.write("E:TEMP", 20.0)
            assert (lost.facility_code, lost.error_code) == (1, -42), lost
        lines = service.attempts()
        assert any("E:TEMP" in line and "19" in line for line in lines), lines


def a_broker_that_asks_for_a_password_and_has_a_certificate_lets_us_in():
    with _broker(secure=True) as broker:
        broker.publish("hall/temp", "21.5", retain=True)
        with broker.served(password="secret") as service, service.dpm() as backend:
            assert _read(backend, "E:TEMP") == 21.5
        with broker.served(password="wrong") as service, service.dpm() as backend:
            refused = backend.get("E:TEMP@I")
            assert (refused.facility_code, refused.error_code) == (17, -17), refused
        # The broker's certificate isn't signed by this authority.
        _certificate(broker.folder, "other")
        with broker.served(password="secret", authority="other.pem") as service, service.dpm() as backend:
            unproved = backend.get("E:TEMP@I")
            assert (unproved.facility_code, unproved.error_code) in ((1, -42), (1, -49)), unproved


class Broker:
    """A mosquitto on a free port, which persists nothing."""

    def __init__(self, folder, secure):
        self.folder, self.port, self._secure, self._process = folder, free_port(), secure, None
        lines = [f"listener {self.port} 127.0.0.1", "persistence false"]
        if secure:
            _certificate(folder, "broker")
            words = ["mosquitto_passwd", "-b", "-c", str(folder / "passwords"), "rookery", "secret"]
            subprocess.run(words, check=True, capture_output=True)
            lines += ["allow_anonymous false", f"password_file {folder}/passwords"]
            lines += [f"certfile {folder}/broker.pem", f"keyfile {folder}/broker.key"]
        else:
            lines += ["allow_anonymous true"]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def start(self):
        command = ["mosquitto", "-c", str(self.folder / "mosquitto.conf")]
        log = (self.folder / "mosquitto.log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.publish("rookery/ready", "1")

    def kill(self):
        """Kills the broker."""
        self._process.kill()
        self._process.wait()

    def publish(self, topic, payload, retain=False):
        """Publishes a message as soon as the broker is up."""
        command = ["mosquitto_pub", *self._access(), "-q", "1", "-t", topic, "-m", payload] + ["-r"] * retain
        for _ in range(rookery.PATIENCE * 10):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            assert self._process.poll() is None, (self.folder / "mosquitto.log").read_text()
            time.sleep(0.1)
        raise AssertionError(done.stderr)

    def kept(self, topic):
        command = ["mosquitto_sub", *self._access(), "-t", topic, "-C", "1", "-W", str(rookery.PATIENCE)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def _access(self):
        access = ["-h", "127.0.0.1", "-p", str(self.port)]
        return access + ["-u", "rookery", "-P", "secret", "--cafile", str(self.folder / "broker.pem")] * self._secure

    def served(self, settings=False, password=None, authority="broker.pem"):
        """A service whose devices are topics of this broker."""
        access = ""
        if password:
            (self.folder / "password").write_text(password + "\n")
            access = f'user = "rookery"\npassword_file = "password"\nauthority = "{authority}"\nhost = "localhost"'
        path = self.folder / "devices.toml"
        path.write_text(DEVICES.format(port=self.port, access=access))
        return rookery.with_settings(path, front_ends=False) if settings else rookery.with_database(path)


@contextlib.contextmanager
def _broker(secure=False):
    with tempfile.TemporaryDirectory(prefix="rookery-mqtt-") as folder:
        broker = Broker(pathlib.Path(folder), secure)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def _certificate(folder, name):
    """A self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    made = made.not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = made.sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(secret)
    # The broker may have dropped root's rights by then.
    (folder / f"{name}.key").chmod(0o644)
    folder.chmod(0o755)
