"""The service as a user runs it: signals, slow and early clients, limits, workers, newer policies, tokens, systemd."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

import httpx
import psutil
from helpers.played_states import save_policy, some_policy
from oracles.process_play import office

from longstride import __version__
from longstride.process.simulator import ProcessSimulator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="workers need os.fork, which this system does not have"),
]

ROOT = Path(__file__).resolve().parents[3]
TOKENS = ["a first token of some length", "a second token of some length"]
STATE = b'{"time": 1, "waiting": [{"case": "1", "activity": "A", "since": 0}], "on_shift": ["day"]}'


@pytest.fixture(scope="module")
def simulator():
    return ProcessSimulator(office())


@pytest.fixture
def run(simulator, tmp_path):
    return save_policy(tmp_path / "run", simulator, some_policy(simulator))


class Service:
    """The command of a user, with the lines that it prints."""

    def __init__(self, run, *flags, **variables):
        command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--mode", "recommend", "--serve", "0"]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src" / "core"), *sys.path]), **variables}
        variables.pop("LONGSTRIDE_TOKEN", None)
        self.process = subprocess.Popen(
            [*command, "--run-directory", str(run), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self.lines, self.errors = [], []
        for stream, found in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=lambda s=stream, f=found: f.extend(iter(s.readline, "")), daemon=True).start()

    def wait_for(self, beginning, count=1):
        begin = time.monotonic()
        while sum(line.startswith(beginning) for line in self.lines) < count:
            assert self.process.poll() is None and time.monotonic() - begin < 100, (self.lines, self.errors)
            time.sleep(0.01)
        return [line for line in self.lines if line.startswith(beginning)][count - 1]

    @property
    def port(self):
        return int(re.search(r":(\d+) ", self.wait_for("Serving"))[1])

    def workers(self):
        return [child.pid for child in psutil.Process(self.process.pid).children()]

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.errors == []
        return code


@contextmanager
def service(run, *flags, **variables):
    found = Service(run, *flags, **variables)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
            found.process.wait()


def request_of(body, more=""):
    head = f"POST /recommend HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def answer(channel):
    """Read one answer; return its status, its head in lower case, and its body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = channel.recv(1)
        assert byte, f"the connection ended after {head!r}"
        head += byte
    length, body = int(re.search(rb"content-length: (\d+)", head.lower())[1]), b""
    while len(body) < length:
        body += channel.recv(length - len(body))
    return int(head[9:12]), head.lower(), body


def test_sigterm_loses_no_request(run):
    """Fifty busy connections got a reset each; half a request got status 500."""
    with service(run, "--service-drain-seconds", "3") as found:
        address = ("127.0.0.1", found.port)
        busy = [socket.create_connection(address, 20) for _ in range(50)]
        for channel in busy:
            channel.sendall(request_of(STATE))
            assert answer(channel)[0] == 200
        half_body, half_head = (socket.create_connection(address, 20) for _ in range(2))
        half_body.sendall(request_of(STATE)[:-5])
        half_head.sendall(request_of(STATE)[:20])
        time.sleep(0.3)
        for channel in busy[:25]:
            channel.sendall(request_of(STATE))
        found.process.send_signal(signal.SIGTERM)
        time.sleep(0.4)  # the others ask while the service stops
        for channel in busy[25:]:
            channel.sendall(request_of(STATE))
        answers = [answer(channel) for channel in busy]
        assert [status for status, _, _ in answers] == [200] * 50
        assert all(b"connection: close" in head for _, head, _ in answers[25:])
        for channel in (half_body, half_head):
            status, head, body = answer(channel)
            assert (status, b"connection: close" in head) == (503, True)
            assert json.loads(body)["error"] == (
                "The service is stopping and the request did not arrive completely; send it again."
            )
        assert found.process.wait(30) == 0
        assert found.errors == [] and found.lines[-1] == "Stopped.\n"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_ends_it_well(run, number, tmp_path):
    """It ended by the signal; the port accepted long before anybody answered."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cold = {"LONGSTRIDE_KERNEL_CACHE": str(tmp_path / "cold")}
    with service(run, "--serve", str(port), **cold) as found:
        begin = time.monotonic()
        while not (tmp_path / "cold").exists():  # it compiles
            assert time.monotonic() - begin < 100
            time.sleep(0.01)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        found.process.send_signal(signal.SIGHUP)
        assert found.end(number) == 0
        assert found.lines == ["Stopped before it served.\n"]


def test_clients_that_do_not_receive_or_leave_early(run, tmp_path):
    """The connection stayed open for ever, and a client that left wrote 35 lines of traceback."""
    log = tmp_path / "access.log"
    with service(run, "--service-write-seconds", "1", "--access-log", str(log)) as found:
        for waits in (True, False):
            channel = socket.socket()
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            channel.connect(("127.0.0.1", found.port))
            channel.settimeout(0.3)
            begin = time.monotonic()
            with pytest.raises(OSError) as ended:
                while time.monotonic() - begin < 30:
                    channel.sendall(request_of(STATE))  # and reads no answer
                    time.sleep(0.001)
            if isinstance(ended.value, TimeoutError) and waits:  # the service takes no more of them, either
                channel.settimeout(30)
                with pytest.raises(OSError):
                    while True:
                        channel.sendall(request_of(STATE))
            channel.close()
        assert httpx.get(f"http://localhost:{found.port}/ready").status_code == 200
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0
        assert found.errors == []
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert 499 in {line["status"] for line in lines}


def test_more_connections_than_allowed_are_told_to_come_again(run):
    with service(run, "--service-connections", "3") as found:
        address = ("127.0.0.1", found.port)
        channels = [socket.create_connection(address, 20) for _ in range(4)]
        time.sleep(0.3)
        for channel in channels:
            channel.sendall(request_of(STATE))
        answers = [answer(channel) for channel in channels]
        assert [status for status, _, _ in answers] == [200, 200, 200, 503]
        assert b"retry-after: 1" in answers[-1][1]
        assert json.loads(answers[-1][2]) == {"error": "The service has too many connections; try again."}
        channels[0].close()
        time.sleep(0.3)
        assert httpx.post(f"http://localhost:{found.port}/recommend", content=STATE).status_code == 200
        assert found.end() == 0


def test_large_bodies_delay_nobody(run):
    """Each took over a second, in which nobody else was answered; here they are refused while others are."""
    bad = b'{"time":1,"next_changes":{' + b",".join(b'"%d":[]' % i for i in range(25_000)) + b"}}"
    keys = b'{"time":1,' + b",".join(b'"k%d":1' % i for i in range(60_000)) + b"}"
    with service(run) as found, httpx.Client(base_url=f"http://localhost:{found.port}") as client:
        for body, sentence in (
            (bad, "the body: next_changes.0[0] is missing."),
            (keys, "the body: k0 is an unknown key."),
            (b'{"time":1,"x' + b"y" * 900_000 + b'":1}', "the body: x"),
            (b"{" + b",".join(b'"%d":1' % i for i in range(99_000)) + b"}", "the body: it has 99,000 colons; "),
            (
                b'{"time":1,"memory":[' + b"[]," * 300_000 + b"[]]}",
                "the body: it has 300,002 lists; expected at most 30,000",
            ),
        ):
            refused = client.post("/recommend", content=body)
            assert (refused.status_code, refused.json()["error"][: len(sentence)]) == (422, sentence)


def test_ids_logs_and_counts(run, tmp_path):
    log, token = tmp_path / "access.log", tmp_path / "token"
    token.write_text(TOKENS[0])
    token.chmod(0o600)
    with service(run, "--workers", "2", "--access-log", str(log), "--token-file", str(token)) as found:
        shown = {"Authorization": f"Bearer {TOKENS[0]}"}
        with httpx.Client(base_url=f"http://localhost:{found.port}") as client:
            given = client.post("/recommend", content=STATE, headers={**shown, "X-Request-ID": "order-17"})
            assert given.headers["x-request-id"] == "order-17"
            for odd in ("a b", "x" * 101, '"}{"'):
                made = client.post("/recommend", content=STATE, headers={**shown, "X-Request-ID": odd})
                assert re.fullmatch("[0-9a-f]{32}", made.headers["x-request-id"])
            assert client.post("/recommend", content=STATE).status_code == 401
            assert client.get("/metrics").status_code == 401
            for path in ("/health", "/ready"):
                assert client.get(path).status_code == client.head(path).status_code == 200
            health = client.get("/health").json()
            assert (health["answered"], health["version"]) == (4, __version__)
            told = given.json()
            assert (told["policy_sha256"], told["version"]) == (health["policy_sha256"], __version__)
            page = client.get("/metrics", headers=shown).text
            assert 'longstride_requests_total{route="/recommend",status="200"} 4.0' in page
            assert 'longstride_requests_total{route="/recommend",status="401"} 1.0' in page
            assert "longstride_recommend_seconds_count 5.0" in page
            assert f'policy_sha256="{health["policy_sha256"]}"' in page
        assert found.end() == 0
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["request_id"] for line in lines].count("order-17") == 1
    assert {line["status"] for line in lines} == {200, 401}
    assert TOKENS[0] not in text and '"A"' not in text and "day" not in text


def test_workers_that_end_are_replaced_and_newer_policies_are_loaded(run, simulator):
    with service(run, "--workers", "2") as found:
        address = f"http://localhost:{found.port}"
        first = httpx.get(f"{address}/health").json()
        os.kill(found.workers()[0], signal.SIGKILL)
        assert "ended by signal 9; another one takes its place." in found.wait_for("Worker ")
        (run / "checkpoints" / "last" / "policy.safetensors").write_bytes(b"garbage")
        found.process.send_signal(signal.SIGHUP)
        found.wait_for("Nothing was loaded, and the previous policy stays: ")
        assert httpx.get(f"{address}/health").json()["policy_sha256"] == first["policy_sha256"]
        other = save_policy(run.parent / "other", simulator, some_policy(simulator, seed=1), mean_of_late_policies=True)
        for file in (other / "checkpoints" / "last").iterdir():
            file.replace(run / "checkpoints" / "last" / file.name)
        found.process.send_signal(signal.SIGHUP)
        found.wait_for("Loaded the mean of the late policies up to iteration 7 (policy ")
        begin = time.monotonic()
        while (now := httpx.get(f"{address}/health").json())["policy_sha256"] == first["policy_sha256"]:
            assert time.monotonic() - begin < 60
        assert now["mean_of_late_policies"] and not first["mean_of_late_policies"]
        assert found.end() == 0


def test_a_newer_checkpoint_is_found_without_a_signal(run, simulator):
    with service(run, "--service-reload-seconds", "0.5") as found:
        found.wait_for("Serving")
        for file in (run / "checkpoints" / "last").glob("*.json"):
            os.utime(file)
        found.wait_for("Loaded iteration 7 (policy ")
        assert found.end() == 0


def test_tokens_change_without_a_restart(run, tmp_path):
    token = tmp_path / "token"

    def write(*tokens):
        token.write_text("\n".join(tokens) + "\n")
        token.chmod(0o600)

    def statuses(port):
        headers = [{"Authorization": f"Bearer {each}"} for each in TOKENS]
        return [httpx.post(f"http://localhost:{port}/recommend", content=STATE, headers=h).status_code for h in headers]

    write(TOKENS[0])
    with service(run, "--token-file", str(token)) as found:
        assert statuses(found.port) == [200, 401]
        for tokens, expected in ((TOKENS, [200, 200]), (TOKENS[1:], [401, 200])):
            write(*tokens)
            found.process.send_signal(signal.SIGHUP)
            begin = time.monotonic()
            while statuses(found.port) != expected:
                assert time.monotonic() - begin < 60
        token.chmod(0o646)
        found.process.send_signal(signal.SIGHUP)
        assert "other users can read or change it (mode 0646)" in found.wait_for("Nothing was loaded")
        assert statuses(found.port) == [401, 200]
        assert found.end() == 0


def test_workers_end_with_their_master(run):
    with service(run, "--workers", "2") as found:
        workers, _ = found.workers(), found.port
        found.process.kill()
        assert psutil.wait_procs([psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)], 20)[1] == []


def test_systemd_hears_the_state(run, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(100)
        with service(run, NOTIFY_SOCKET=str(path)) as found:
            assert systemd.recv(999) == b"READY=1\nSTATUS=Serving."
            found.process.send_signal(signal.SIGHUP)
            assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", systemd.recv(999))
            assert systemd.recv(999) == b"READY=1"
            assert found.end() == 0
            assert systemd.recv(999) == b"STOPPING=1"
