"""The service: a simulated week through it, what it refuses, and a process that is killed and started again."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

import httpx
import uvicorn
from helpers.played_states import save_policy, some_policy
from oracles.process_play import office
from uvicorn.server import ServerState

from longstride import __version__
from longstride.errors import UserError
from longstride.process.recommend.recommender import Recommender
from longstride.process.recommend.service import connection
from longstride.process.recommend.service.access_log import AccessLog
from longstride.process.recommend.service.app import create_app
from longstride.process.recommend.service.connections import Connections
from longstride.process.recommend.service.counts import Counts
from longstride.process.recommend.service.guard import Guard, guard_of
from longstride.process.recommend.service.limits import MOST_BYTES, Limits, Served
from longstride.process.simulator import ProcessSimulator

ABOUT = {
    "scenario": "office",
    "policy": "mlp",
    "iteration": 7,
    "mean_of_late_policies": True,
    "policy_sha256": "0" * 64,
}
WEEK = 7 * 1440.0
ROOT = Path(__file__).resolve().parents[3]
REPLAYS = (
    *("office:mingru:40", "office:transformer:40", "office:pointer:40", "clinic:mingru:40", "clinic:pointer:60"),
    "punctual:mlp:60",
)
TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def trained():
    return some_policy(ProcessSimulator(office()))


@pytest.fixture(scope="module")
def recommender(trained):
    return Recommender(ProcessSimulator(office()), trained)


class Client:
    """Asks an application in this process, without sockets."""

    def __init__(self, app, **settings):
        self._loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), **settings)

    def ask(self, method, path, **parts):
        return self._loop.run_until_complete(self._client.request(method, path, **parts))

    def get(self, path, **parts):
        return self.ask("GET", path, **parts)

    def post(self, content="{}", path="/recommend", **parts):
        return self.ask("POST", path, content=content, **parts)


@pytest.fixture(scope="module")
def client(recommender):
    served = Served(recommender, ABOUT, recommender)  # one request after another, so both threads may share it
    return Client(create_app(served, guard_of("127.0.0.1", None)), base_url="http://localhost")


@pytest.fixture(scope="module")
def replays(tmp_path_factory):
    """Return the states and actions of an evaluation's episode, and how other policies' episodes were repeated."""
    file, script = tmp_path_factory.mktemp("week") / "week.json", Path(__file__).with_name("replay_of_a_week.py")
    paths = os.pathsep.join([str(ROOT / "src" / "core"), str(ROOT / "tests"), str(ROOT)])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-W", "ignore", str(script), str(file), *REPLAYS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text()), json.loads(done.stdout)


@pytest.fixture(scope="module")
def played(replays):
    return replays[0]


@pytest.mark.parametrize("case", REPLAYS)
def test_policies_with_memory_and_of_lists_repeat_their_decisions(replays, case):
    """With parallel branches, delays, an automatic activity, rosters and pauses."""
    found = replays[1][REPLAYS.index(case)]
    assert (found["decisions"], found["other actions"], found["other observations"]) == (int(case[-2:]), 0, 0)
    assert found["siblings"] > 20
    assert sum(name.startswith("action") for name in found) >= 3


def test_the_service_repeats_the_decisions_of_an_evaluation(client, played, recommender):
    last = json.loads(played[-1][0])["time"]
    answers = [client.post(state, params={"top": 0}).json() for state, _ in played]
    assert last > WEEK
    assert [answer["action"] for answer in answers] == [action for _, action in played]
    assert len({answer["action"] for answer in answers}) >= 5
    for (state, action), answer in zip(played, answers, strict=True):
        total = sum(each["probability"] for each in answer["assignments"]) + answer["postpone"]["probability"]
        assert total == pytest.approx(1.0, abs=1e-5)
        assert (answer["recommended"] is None) == (action == recommender.simulator.action_space.n - 1)
        for each in answer["assignments"]:
            _check_figures(json.loads(state), each, recommender.simulator.scenario)


def _check_figures(state, assignment, scenario):
    """Compute the figures of an assignment from the described state and the scenario alone."""
    activity, person = assignment["activity"], assignment["person"]
    busy = {task["person"] for task in state["in_work"]}
    free = set(state["on_shift"]) - busy
    queue = [task for task in state["waiting"] if task["activity"] == activity]
    means = {
        entry.resource: (entry.low + entry.high) / 2
        if entry.distribution == "uniform"
        else np.mean([np.mean(step) for step in zip(entry.quantiles, entry.quantiles[1:], strict=False)])
        if entry.quantiles
        else entry.mean
        for entry in scenario.service
        if entry.activity == activity
    }
    head = min(queue, key=lambda task: task["since"])
    opened = {case["case"]: case["since"] for case in state["cases"]}
    assert person in free
    assert assignment["queue"] == len(queue)
    assert assignment["case"] == head["case"]
    assert assignment["waited"] == state["time"] - head["since"]
    assert assignment["case_age"] == state["time"] - opened[head["case"]]
    assert assignment["service_time"] == pytest.approx(means[person])
    assert assignment["fastest_service_time"] == pytest.approx(min(means.values()))
    assert assignment["others"] == len(means) - 1
    assert assignment["free_others"] == len((set(means) & free) - {person})
    statuses = {other: "free" if other in free else "busy" if other in busy else "off shift" for other in means}
    assert all(each["status"] == statuses[each["person"]] != person for each in assignment["alternatives"])


@pytest.mark.parametrize(
    ("status", "content", "sentence"),
    [
        (422, "{", "the body: this is not JSON: EOF while parsing an object at line 1 column 1."),
        (422, "[]", "the body: Input should be an object"),
        (422, "[" * 25_000, "the body: this is not JSON: recursion limit exceeded"),
        (422, "[" * 100_000, "the body: it has 100,000 lists; expected at most 30,000, send fewer cases."),
        (422, b"\xff\xfe", "the body: this is not JSON"),
        (422, "{}", "the body: time is missing."),
        (422, '{"time": 1, "tiem": 2}', "the body: tiem is an unknown key; did you mean time?"),
        (422, '{"time": NaN}', "the body: time: Input should be a finite number"),
        (422, '{"time": 1e999}', "the body: time: Input should be a finite number"),
        (422, '{"time": 1, "waiting": [{"case": "1", "activity": "A"}]}', "the body: waiting[0].since is missing."),
        (422, '{"time": 1, "in_work": [{"case": 1}]}', "the body: in_work[0].activity is missing."),
        (400, '{"time": "noon"}', "time: 'noon' is not an ISO 8601 date and time like 2026-11-23T10:15:00."),
        (
            400,
            '{"time": 1, "on_shift": ["nihgt"]}',
            "on_shift[0]: the scenario has no person 'nihgt'; did you mean night?",
        ),
        (
            400,
            '{"time": 1, "waiting": [{"case": "1", "activity": "Z", "since": 0}]}',
            "waiting[0].activity: the scenario has no activity 'Z'.",
        ),
        (
            400,
            '{"time": 1, "waiting": [{"case": "1", "activity": "A", "since": 2}]}',
            "waiting[0].since: 2.0 is after the state's time.",
        ),
        (
            400,
            '{"time": 1, "waiting": [{"case": "1", "activity": "A", "since": "2026-11-23"}]}',
            "waiting[0].since: '2026-11-23' is a text, but time is a number; give both in one form.",
        ),
        (
            400,
            '{"time": 1, "waiting": [{"case": "1", "activity": "A", "since": 1, "place": 9}]}',
            "waiting[0].place: the flow has 2 place(s) of 'A', counted from 0, not 9.",
        ),
        (
            400,
            '{"time": 1, "in_work": [{"case": "1", "activity": "C", "person": "day", "since": 1}]}',
            "in_work[0]: day never does 'C' in the scenario; leave out the task, and take the person out of on_shift.",
        ),
        (
            400,
            '{"time": 1, "cases": [{"case": "1", "since": 1}, {"case": 1, "since": 1}]}',
            "cases[1].case: '1' is listed",
        ),
        (400, '{"time": 1, "next_changes": {"day": [0, 5]}}', "next_changes.day: expected the next change and the one"),
    ],
)
def test_bad_states_are_refused_in_a_sentence(client, status, content, sentence):
    answer = client.post(content)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"].startswith(sentence)


ODD = [
    None,
    True,
    -1,
    2**70,
    1e308,
    -1e308,
    "",
    "day",
    "A",
    "1e5",
    "2026-11-23",
    "\u0000",
    "\ud83d\ude00" * 300,
    [],
    {},
    [[]],
]


def mutated(state, rng):
    """Return a state in which a few values at any place are odd, gone, or there twice."""
    for _ in range(rng.integers(1, 4)):
        part, way = state, []
        while isinstance(part, dict | list) and len(part) and (not way or rng.random() < 0.7):
            key = rng.choice(sorted(part)) if isinstance(part, dict) else int(rng.integers(len(part)))
            way.append((part, key))
            part = part[key]
        if way:
            container, key = way[-1]
            kind = rng.integers(3)
            if kind == 0:
                container[key] = ODD[rng.integers(len(ODD))]
            elif kind == 1:
                del container[key]
            elif isinstance(container, list):
                container.append(container[key])
            else:
                container[str(rng.integers(9))] = container[key]
    return state


def test_odd_states_are_answered_or_refused_in_one_sentence(client, played):
    rng, counts = np.random.default_rng(0), {200: 0, 400: 0, 422: 0}
    for i in range(600):
        answer = client.post(json.dumps(mutated(json.loads(played[i % len(played)][0]), rng)))
        counts[answer.status_code] += 1  # any other status is a KeyError
        if answer.status_code != 200:
            error = answer.json()["error"]
            assert error[-1] in ".?" and "\n" not in error and len(error) < 400, error
        else:
            total = sum(each["probability"] for each in answer.json()["assignments"])
            assert 0.0 <= total <= 1.0 + 1e-5
    assert min(counts.values()) > 30, counts
    answers = [client.post(state).json()["action"] for state, _ in played[::10]]
    assert answers == [action for _, action in played[::10]]  # and none of them left anything behind


async def _chunks():
    for _ in range(17):
        yield b" " * 2**16


def test_large_bodies_are_refused_before_they_are_read(client):
    for content in (b" " * (MOST_BYTES + 1), _chunks()):
        answer = client.post(content)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert answer.json()["error"].startswith("The body is larger than 1.0 MB")
    assert client.post(b" " * MOST_BYTES).status_code == 422


def test_a_large_body_of_mistakes_is_refused_at_the_first(client):
    """All of them took five seconds, in which nobody else was answered."""
    begin = time.monotonic()
    for part in (b'"waiting":[' + b"{}," * 340_000 + b"{}]", b'"on_shift":[' + b"[]," * 340_000 + b"[]]"):
        assert client.post(b'{"time":1,' + part + b"}").status_code == 422
    assert time.monotonic() - begin < 2.0


class Transport(asyncio.Transport):
    """What a connection writes to."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def _sent(app, pieces, seconds):
    """Return what a connection answered to pieces of data, and whether it was closed by itself."""
    config = uvicorn.Config(app, lifespan="off", ws="none")
    config.load()
    server, transport = ServerState(), Transport()
    loop = asyncio.get_running_loop()
    every = Connections(Limits(), Counts(), AccessLog())
    found = connection.Connection(every, config=config, server_state=server, app_state={}, _loop=loop)
    found.connection_made(transport)
    for piece in pieces:
        if not transport.closed:
            found.data_received(piece)
        await asyncio.sleep(0.02)
    await asyncio.sleep(seconds)
    every.check()
    closed = transport.closed
    found.connection_lost(None)
    return transport.written, closed


HEAD = b"POST /recommend HTTP/1.1\r\nHost: localhost\r\n"


def test_a_head_that_is_too_long_or_slow_ends_the_connection(recommender, monkeypatch):
    """Uvicorn would keep all of it, for ever, before anybody asked for a token."""
    app = create_app(Served(recommender, ABOUT), guard_of("127.0.0.1", None))

    def sent(*pieces, seconds=0.0):
        return asyncio.run(_sent(app, pieces, seconds))

    longest = [HEAD, *([b"x: " + b"a" * 1021 + b"\r\n"] * 100)]
    answer, closed = sent(*longest)
    assert closed and answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "The header of the request is too large."}
    answer, closed = sent(HEAD + b"x: " + b"a" * 70_000 + b"\r\n\r\n")
    assert closed and answer.startswith(b"HTTP/1.1 431 "), "all of it at once, too"
    large = HEAD + b"Content-Length: 70000\r\n\r\n" + b" " * 70_000
    end = large.index(b"\r\n\r\n")
    for cut in (0, 20, end + 2, end + 4):
        assert not sent(large[:cut], large[cut:])[0].startswith(b"HTTP/1.1 431 "), "a body is no head"
    whole = HEAD + b"Content-Length: 2\r\n\r\n{}"
    answer, closed = sent(*[whole] * 3, whole[:20], whole[20:])
    assert answer.count(b"HTTP/1.1 422 ") == 4 and not closed
    monkeypatch.setattr(connection, "MOST_SECONDS", 0.1)
    for pieces in ([HEAD], [], [whole, HEAD]):
        answer, closed = sent(*pieces, seconds=0.3)
        assert closed and b"The request did not arrive within 0 seconds." in answer
    answer, closed = sent(whole, seconds=0.3)
    assert not closed, "a connection that waits for its next request is uvicorn's to close"


def test_a_state_without_decision_and_one_of_which_much_is_left_out(client):
    answer = client.post('{"time": 1}').json()
    assert (answer["recommended"], answer["action"], answer["assignments"]) == (None, -1, [])
    assert answer["words"] == "No free person can do a waiting task, so there is nothing to decide."
    task = {"case": 5, "activity": "A", "since": "2026-11-24T09:00:00+01:00"}
    state = {"time": "2026-11-24T09:30:00+01:00", "waiting": [task]}
    at_work = client.post(json.dumps(state)).json()
    assert at_work["assignments"][0]["person"] == "day"
    assert (at_work["assignments"][0]["waited"], at_work["assignments"][0]["case_age"]) == (30.0, 30.0)
    assert client.post(json.dumps({**state, "time": "2026-11-24T12:20:00+01:00"})).json()["action"] == -1
    assert client.post(json.dumps({**state, "on_shift": ["always"]})).json()["action"] == -1


def test_top_limits_the_assignments(client, played):
    state = next(state for state, _ in played if client.post(state).json()["feasible"] > 1)
    counts = [len(client.post(state, params={"top": top}).json()["assignments"]) for top in (1, 0)]
    assert counts[0] == 1 < counts[1]
    for top in ("-1", "x", "1" * 400, "\u00b2"):
        assert client.post(state, params={"top": top}).status_code == 422


def test_other_paths_names_and_machines(client, recommender, monkeypatch):
    assert client.get("/recommend").status_code == 405
    assert client.get("/etc/passwd").json()["error"].startswith("Not Found")
    assert client.post(path="/recommend/").json()["error"].startswith("Not Found")
    health = client.get("/health").json()
    assert health == {
        "status": "ok", "version": __version__, **ABOUT, "checkpoint_age_seconds": None, "answered": health["answered"],
        "draws": False,
    }  # fmt: skip
    assert client.post('{"time": 1}').status_code == 200
    assert client.get("/health").json()["answered"] == health["answered"] + 1
    form = client.get("/openapi.json").json()
    assert {"ProcessState", "WaitingTask", "Answer", "Problem"} <= set(form["components"]["schemas"])
    assert "swagger" in client.get("/docs").text
    assert client.post(headers={"Host": "example.org:80"}).status_code == 400
    for host in ("[::1]", "[::1]:8080", "LOCALHOST", "127.0.0.1:1"):
        assert client.post(headers={"Host": host}).status_code == 422
    guarded = Client(create_app(Served(recommender, ABOUT), Guard((TOKEN,))), base_url="http://example.org")
    for given in (
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer \u00e9\u00e9".encode()},
    ):
        assert guarded.post(headers=given).status_code == 401
        assert guarded.get("/docs", headers=given).status_code == 401
    assert guarded.post(headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 422
    assert guarded.get("/health").status_code == 200


def test_other_machines_need_a_token(monkeypatch, tmp_path):
    monkeypatch.delenv("LONGSTRIDE_TOKEN", raising=False)
    assert (
        guard_of("127.0.0.1", None).tokens == guard_of("::1", None).tokens == guard_of("localhost", None).tokens == ()
    )
    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::"):
        with pytest.raises(UserError, match="needs a token; set LONGSTRIDE_TOKEN or name a --token-file"):
            guard_of(host, None)
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert guard_of("0.0.0.0", str(file)) == Guard((TOKEN,))
    assert TOKEN not in repr(Guard((TOKEN,)))
    monkeypatch.setenv("LONGSTRIDE_TOKEN", TOKEN)
    assert guard_of("127.0.0.1", None).tokens == guard_of("::", None).tokens == (TOKEN,)
    for content in ("short", "\u00e9" * 20, "two lines of some\nlength", " \n"):
        file.write_text(content)
        with pytest.raises(UserError, match=r"token (must be one line )?of at least 16 "):
            guard_of("0.0.0.0", str(file))
    with pytest.raises(UserError, match="the file cannot be read"):
        guard_of("0.0.0.0", str(tmp_path / "missing"))


def start(run):
    """Start the command as a user does; return the process and its address."""
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--mode", "recommend"]
    command += ["--run-directory", str(run), "--serve", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("Serving test on http://127.0.0.1:"), line + process.stderr.read()
    return process, line.split()[3]


@pytest.mark.slow
def test_a_service_that_is_killed_gives_the_same_answers_when_it_is_started_again(
    recommender, trained, played, tmp_path
):
    run = save_policy(tmp_path / "run", recommender.simulator, trained)
    states, answers = [state for state, _ in played[::20]], []
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        process, address = start(run)
        with httpx.Client(base_url=address) as client:
            for content, status in (("{", 422), (b" " * (MOST_BYTES + 1), 413), (states[0], 200)):
                assert client.post("/recommend", content=content).status_code == status
        with ThreadPoolExecutor(8) as pool, httpx.Client(base_url=address) as client:
            answers.append([r.text for r in pool.map(lambda state: client.post("/recommend", content=state), states)])
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":")[-1]))) as idle:
            idle.sendall(b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")  # and hangs up
        process.send_signal(number)
        assert process.wait(20) == code
        assert process.stderr.read() == ""
    assert answers[0] == answers[1]
    assert [json.loads(answer)["action"] for answer in answers[0]] == [action for _, action in played[::20]]
    assert os.listdir(tmp_path) == ["run"]
