"""Runs gRPC clients: unmodified pacsys, and grpcio with messages that Google's library makes from
the description below.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import pathlib
import socket
import tempfile
import threading
import time

import grpc
import pacsys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from pacsys.auth import JWTAuth
from pacsys.devdb import DevDBClient
from pacsys.errors import DeviceError

import rookery

# Nothing checks this token: pacsys requires one before it sends a setting.
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ0ZXN0ZXIiLCJleHAiOjQxMDI0NDQ4MDB9.x"


def pacsys_reads_one_and_many():
    with _service() as port, _pacsys(port) as backend:
        assert 69 < backend.read("M:OUTTMP") < 76
        asked = {
            "B:ARRAY[0:3]": lambda value: len(value) == 4,
            "G:TEXT": lambda value: value == "HELLO",
            "M:OUTTMP.RAW": lambda value: len(value) == 2,
            "M|OUTTMP": lambda value: value == {"on": True, "ready": True, "remote": False, "positive": True, "ramp": False},
            "M@OUTTMP": lambda value: (value["minimum"], value["maximum"]) == (69.5, 75.75),
            "M$OUTTMP": lambda value: (value["nominal"], value["mask"]) == (2, 3),
            "M|OUTTMP.BIT_NAMES": lambda value: list(value) == ["On", "Ready", "Remote"],
            "M:OUTTMP.DESCRIPTION": lambda value: value == "Outdoor temperature",
            "Z:NOSUCH": lambda value: value is None,
        }
        readings = backend.get_many(list(asked))
        for (drf, is_right), reading in zip(asked.items(), readings):
            assert is_right(reading.value), (drf, reading)
        assert (readings[-1].facility_code, readings[-1].error_code) == (16, -13), readings[-1]


def pacsys_subscribes():
    with _service() as port, _pacsys(port) as backend:
        with backend.subscribe(["G:COUNTR@p,200", "Z:NOSUCH@p,200"]) as stream:
            counted = []
            for reading, _ in stream.readings(timeout=rookery.PATIENCE):
                if reading.drf.startswith("G:COUNTR"):
                    counted.append(reading.value)
                if len(counted) == 5:
                    break
            assert counted == sorted(set(counted)), counted


def pacsys_reads_history():
    with _service() as port, _pacsys(port) as backend:
        # The demonstration records once a second.
        deadline = time.monotonic() + rookery.PATIENCE
        while len((value := backend.read("M:OUTTMP<-LOGGERDURATION:60000"))["data"]) < 3:
            assert time.monotonic() < deadline, value
            time.sleep(0.5)
        assert all(69 < degrees < 76 for degrees in value["data"])
        assert list(value["micros"]) == sorted(value["micros"])
        reading = backend.get("Z:CUBE_X<-LOGGERDURATION:1000")
        assert (reading.facility_code, reading.error_code) == (1, -30), reading


def pacsys_plots():
    with _service() as port, _pacsys(port) as backend:
        with backend.subscribe(["M:OUTTMP@p,100H"]) as stream:
            times = []
            for reading, _ in stream.readings(timeout=rookery.PATIENCE):
                times.append(reading.timestamp)
                if len(times) == 60:
                    break
            assert times == sorted(times)


def pacsys_sets_nothing():
    with _service() as port, _pacsys(port, auth=JWTAuth(token=TOKEN)) as backend:
        results = backend.write_many([("Z:CUBE_X", 4.5), ("M:OUTTMP", 1.0)])
        assert [(result.facility_code, result.error_code) for result in results] == [(17, -17)] * 2, results


def pacsys_sets_by_token():
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as folder:
        folder = pathlib.Path(folder)
        secret = b"a secret of the issuer and the service"
        key = {"kty": "oct", "alg": "HS256", "k": _base64(secret)}
        (folder / "keys.json").write_text(json.dumps({"keys": [key]}))
        (folder / "roles.toml").write_text(rookery.ROLES)
        options = ["--tokens", folder / "keys.json", "--token-issuer", "https://sso.example.org"]
        options += ["--token-realm", "FNAL.GOV", "--roles", folder / "roles.toml", "--audit", folder / "audit.log"]
        with _service(*map(str, options)) as port:
            with _pacsys(port, auth=JWTAuth(token=_token(secret, "operator"))) as backend:
                assert backend.write("Z:CUBE_X", 4.5).success
                assert backend.read("Z:CUBE_X.SETTING") == 4.5
                results = backend.write_many([("Z:CUBE_X", 5.5), ("G:COUNTR", 1.0)])
                assert [result.success for result in results] == [True, False], results
            with _pacsys(port, auth=JWTAuth(token=_token(b"a secret of nobody at all, really", "operator"))) as backend:
                result = backend.write("Z:CUBE_X", 6.5)
                assert (result.facility_code, result.error_code) == (17, -17), result
        log = (folder / "audit.log").read_text()
        assert "operator@FNAL.GOV" in log, log


def pacsys_is_told_of_devices():
    with _service() as port:
        with DevDBClient(host="127.0.0.1", port=port, tls=False) as devices:
            told = devices.get_device_info(["M:OUTTMP", "Z:CUBE_X"])
            assert told["M:OUTTMP"].device_index == 27235 and told["M:OUTTMP"].description == "Outdoor temperature", told
            assert told["M:OUTTMP"].reading.common_units == "DegF", told
            assert told["Z:CUBE_X"].setting is not None, told
            analog, digital = devices.get_alarm_info(["M:OUTTMP"])
            assert (analog.device_name, analog.alarm_block.di) == ("M:OUTTMP", 27235) and digital.digital_alarm_text_id
            (text,) = devices.get_alarm_text([analog.analog_alarm_text_id])
            assert (text.text, text.priority) == ("TEMPERATURE OUT OF RANGE", 3), text
            bits = told["M:OUTTMP"].status_bits
            assert [bit.short_name for bit in bits] == ["On", "Ready", "Remote", "Positive", "Ramp"], bits


def a_stream_ends_when_all_is_read():
    with _service() as port, _channel(port) as (read, _):
        replies = list(read(READING_LIST(drf=["M:OUTTMP@I", "B:ARRAY[0:3]@I", "Z:NOSUCH@I"]), timeout=rookery.PATIENCE))
        found = {reply.index: reply for reply in replies}
        assert len(replies) == 3, replies
        (reading,) = found[0].readings.reading
        assert 69 < reading.data.scalar < 76 and abs(reading.timestamp.seconds - time.time()) < 60
        assert len(found[1].readings.reading[0].data.scalarArr.value) == 4
        assert (found[2].status.facility_code, found[2].status.status_code) == (16, -13)


def deadlines_and_unknown_methods_have_their_codes():
    with _service() as port, _channel(port) as (read, channel):
        try:
            heard = 0
            for _ in read(READING_LIST(drf=["G:COUNTR@p,100"]), timeout=1):
                heard += 1
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
        assert heard > 3
        try:
            channel.unary_unary("/services.daq.DAQ/Nothing")(b"", timeout=rookery.PATIENCE)
            raise AssertionError("a method that is not there was called")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        try:
            list(channel.unary_stream("/services.daq.DAQ/Read")(b"\x0a\x63", timeout=rookery.PATIENCE))
            raise AssertionError("no message was taken for one")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INTERNAL, error


def many_streams_come_and_go():
    with _service() as port, _channel(port) as (read, _):
        calls = [read(READING_LIST(drf=["G:COUNTR@p,100"]), timeout=rookery.PATIENCE) for _ in range(50)]
        # All clients share the readings: the one that reads longest sees everything that the others
        # saw.
        seen = [[reply.readings.reading[0].data.scalar for reply, _ in zip(call, range(5))] for call in calls]
        assert all(counted == sorted(set(counted)) for counted in seen), seen
        enders = [threading.Thread(target=call.cancel) for call in calls]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        (reply,) = read(READING_LIST(drf=["M:OUTTMP@I"]), timeout=rookery.PATIENCE)
        assert reply.readings.reading[0].data.scalar


def the_interface_describes_itself():
    with _service() as port, _channel(port) as (_, channel):
        described = ProtoReflectionDescriptorDatabase(channel)
        assert {"services.daq.DAQ", "services.devdb.DevDB", "grpc.health.v1.Health"} <= set(described.get_services())
        # Messages made only from the description that the service itself returns (reflection).
        pool = descriptor_pool.DescriptorPool(described)
        named = (pool.FindMessageTypeByName(f"services.daq.{name}") for name in ("ReadingList", "ReadingReply"))
        asked, told = map(message_factory.GetMessageClass, named)
        read = channel.unary_stream(
            "/services.daq.DAQ/Read", request_serializer=asked.SerializeToString, response_deserializer=told.FromString
        )
        (reply,) = read(asked(drf=["M:OUTTMP@I"]), timeout=rookery.PATIENCE)
        assert 69 < reply.readings.reading[0].data.scalar < 76, reply
        health = health_pb2_grpc.HealthStub(channel)
        asked = health_pb2.HealthCheckRequest(service="services.daq.DAQ")
        assert health.Check(asked, timeout=rookery.PATIENCE).status == health_pb2.HealthCheckResponse.SERVING
        watched = health.Watch(asked, timeout=rookery.PATIENCE)
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        watched.cancel()


def _base64(text):
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _token(secret, subject):
    claims = {"sub": subject, "iss": "https://sso.example.org", "exp": int(time.time()) + 600}
    text = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{text}.{_base64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


@contextlib.contextmanager
def _service(*options):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with rookery.demo("--grpc", f"127.0.0.1:{port}", *options):
        yield port


def _pacsys(port, **options):
    return pacsys.grpc(host="127.0.0.1", port=port, timeout=rookery.PATIENCE, **options)


@contextlib.contextmanager
def _channel(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_stream(
            "/services.daq.DAQ/Read",
            request_serializer=READING_LIST.SerializeToString,
            response_deserializer=READING_REPLY.FromString,
        ), channel


def _messages():
    """The messages of services.daq.DAQ that reading needs."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="daq.proto", package="daq", syntax="proto3")
    kinds = {"double": field.TYPE_DOUBLE, "string": field.TYPE_STRING, "bytes": field.TYPE_BYTES, "int32": field.TYPE_INT32}
    kinds |= {"int64": field.TYPE_INT64, "uint32": field.TYPE_UINT32}

    def message(name, *rows):
        added = file.message_type.add(name=name)
        for row in rows:
            label, kind, own, number = row.split()[:4]
            choice = row.split()[4:]
            repeated = field.LABEL_REPEATED if label == "repeated" else field.LABEL_OPTIONAL
            one = added.field.add(name=own, number=int(number), label=repeated)
            if kind in kinds:
                one.type = kinds[kind]
            else:
                one.type, one.type_name = field.TYPE_MESSAGE, f".daq.{kind}"
            if choice:
                if not added.oneof_decl:
                    added.oneof_decl.add(name=choice[0])
                one.oneof_index = 0

    message("Timestamp", "optional int64 seconds 1", "optional int32 nanos 2")
    message("Status", "optional int32 facility_code 1", "optional int32 status_code 2", "optional string message 3")
    message("ScalarArray", "repeated double value 1")
    message("Value", "optional double scalar 1 value", "optional ScalarArray scalarArr 2 value", "optional bytes raw 3 value")
    message("Reading", "optional Timestamp timestamp 1", "optional Value data 2", "optional Status status 3")
    message("Readings", "repeated Reading reading 2")
    message("ReadingReply", "optional uint32 index 1", "optional Readings readings 2 value", "optional Status status 3 value")
    message("ReadingList", "repeated string drf 1")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = (pool.FindMessageTypeByName(f"daq.{name}") for name in ("ReadingList", "ReadingReply"))
    return map(message_factory.GetMessageClass, made)


READING_LIST, READING_REPLY = _messages()
