"""The real command with players on this machine: who can reach its ports, and what it does if Ray's processes die."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pydantic")
pytest.importorskip("ray")

from longstride.rollout.hosts.ray_cluster import import_ray
from longstride.rollout.hosts.ray_privacy import private_cluster
from longstride.training.run_directory.metrics_log import read_metrics

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes of Linux")

ROOT = Path(__file__).resolve().parents[3]
SMALL = "--simulator cartpole --num-envs 4 --rollout-steps 64 --actor-hidden-size 16 --critic-hidden-size 16"
SMALL += " --num-hidden-layers 1 --batch-size 64 --device cpu --no-report"
ENDLESS, LONG = 1_000_000, 240


def train(directory, *flags, iterations=ENDLESS):
    """Start a training with two players, and wait for its third iteration."""
    words = [*SMALL.split(), "--training-episodes", str(4 * iterations), "--rollout-hosts", "local:2"]
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--mode", "train", *words, *flags]
    with open(f"{directory}.log", "w") as printed:
        run = psutil.Popen([*command, "--run-directory", str(directory)], stdout=printed, stderr=printed)
    until(lambda: run.poll() is not None or count(directory) >= 3)
    return run


def count(directory):
    return len(read_metrics(directory)) if (directory / "metrics.jsonl").exists() else 0


def until(is_so, seconds=LONG):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def said(directory):
    return Path(f"{directory}.log").read_text()


def tree(run):
    return [run, *run.children(recursive=True)]


def named(run, name):
    return [process for process in tree(run) if process.name().startswith(name)]


def end(run):
    for process in [*run.children(recursive=True), run] if run.poll() is None else []:
        process.kill()
    run.wait(60)


def test_nothing_listens_beyond_this_machine_and_a_token_is_asked_for(tmp_path):
    run = train(tmp_path / "run")
    try:
        listening = [
            (process.name(), connection.laddr.ip)
            for process in tree(run)
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert {"raylet", "gcs_server", "ray::Player"} <= {name.split(" ")[0] for name, _ in listening}
        assert {address for _, address in listening} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, listening
        [raylet] = named(run, "raylet")
        environment = raylet.environ()
        assert environment["RAY_AUTH_MODE"] == "token" and len(environment["RAY_AUTH_TOKEN"]) == 64
        assert not any(environment["RAY_AUTH_TOKEN"] in " ".join(process.cmdline()) for process in tree(run))
        run.send_signal(signal.SIGTERM)
        assert run.wait(LONG) == 130
        assert "saved" in said(tmp_path / "run")
    finally:
        end(run)


@pytest.mark.slow
@pytest.mark.parametrize(("process", "name"), [("raylet", "raylet"), ("gcs_server", "GCS")])
def test_a_process_of_ray_is_killed(tmp_path, process, name):
    run = train(tmp_path / "run")
    try:
        [victim] = named(run, process)
        victim.kill()
        code = run.wait(LONG)
    finally:
        end(run)
    until(lambda: "error: " in said(tmp_path / "run"))
    here = f"Ray's {name} on this machine"
    sentence = rf"error: ({here} has ended, and Ray ends this run with it|The run has ended together with {here})"
    assert said(tmp_path / "run").count("error: ") == 1 and re.search(sentence, said(tmp_path / "run"))
    assert code in (1, 2)  # 1 if Ray was faster
    finished = count(tmp_path / "run")
    again = train(tmp_path / "run", "--resume", iterations=finished + 2)
    assert again.wait(LONG) == 0
    numbers = [record["iteration"] for record in read_metrics(tmp_path / "run")]
    assert numbers == [*range(1, len(numbers) + 1)] and len(numbers) >= finished


@pytest.mark.slow
def test_all_players_are_stopped(tmp_path):
    run = train(tmp_path / "run")
    try:
        players = named(run, "ray::Player")
        assert len(players) == 2
        for player in players:
            player.send_signal(signal.SIGSTOP)
        before = count(tmp_path / "run")
        until(lambda: run.poll() is not None or count(tmp_path / "run") > before + 1)
        assert run.poll() is None
        text = said(tmp_path / "run")
        assert re.search(r"Host \d on this machine was lost; what it had to play was played elsewhere", text)
    finally:
        end(run)


@pytest.mark.slow
def test_a_run_whose_learner_was_killed_goes_on_to_the_same_bits(tmp_path):
    ends = {}
    for name in ("undisturbed", "killed"):
        run = train(tmp_path / name, iterations=100)
        if name == "killed":
            run.kill()
            run.wait(60)
            assert "has ended, and Ray ends this run" not in said(tmp_path / name)  # it was not Ray
            run = train(tmp_path / name, "--resume", iterations=100)
        assert run.wait(LONG) == 0
        ends[name] = [record["trajectory_sha256"] for record in read_metrics(tmp_path / name)]
    assert ends["killed"] == ends["undisturbed"]


def test_variables_of_the_user_are_restored(monkeypatch):
    ray = import_ray()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with private_cluster(ray):
        first = os.environ["RAY_AUTH_TOKEN"]
        assert os.environ["RAY_AUTH_MODE"] == "token" and not ray._private.ray_constants.ENABLE_RAY_CLUSTER
    with private_cluster(ray):
        assert os.environ["RAY_AUTH_TOKEN"] != first
    assert os.environ["RAY_AUTH_MODE"] == "disabled" and "RAY_AUTH_TOKEN" not in os.environ
    assert ray._private.ray_constants.ENABLE_RAY_CLUSTER


CONNECT = """
import sys
from longstride.errors import UserError
from longstride.rollout.hosts.ray_cluster import Cluster
try:
    Cluster(sys.argv[1])
except UserError as error:
    print("said:", error)
else:
    print("joined")
"""


@pytest.fixture(scope="module")
def guarded():
    """A cluster of a user, with a token; its address and the token."""
    token = "0123456789" * 4
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0"}
    program = "import ray, json, sys; quiet = dict(include_dashboard=False, object_store_memory=100 << 20);"
    program += "c = ray.init(address='local', num_cpus=1, **quiet);"
    program += "print(json.dumps(c.address_info['gcs_address']), flush=True); sys.stdin.read()"
    head = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield json.loads(head.stdout.readline()), token
    head.communicate(timeout=60)


@pytest.mark.parametrize(
    ("mode", "token", "answer"),
    [
        ("token", True, "joined"),
        (
            "token",
            "f" * 40,
            "said: The Ray cluster at ROLLOUT_HOSTS = .* does not let this machine in .*RAY_AUTH_TOKEN_PATH",
        ),
        ("token", "", "said: The Ray cluster at ROLLOUT_HOSTS = .* does not let this machine in .*RAY_AUTH_TOKEN_PATH"),
        (
            "disabled",
            "",
            "said: The Ray cluster at ROLLOUT_HOSTS = .* does not let this machine in .*RAY_AUTH_TOKEN_PATH",
        ),
    ],
)
def test_a_cluster_of_the_user_with_a_token(guarded, tmp_path, mode, token, answer):
    address, right = guarded
    variables = {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": right if token is True else token, "HOME": str(tmp_path)}
    variables["PYTHONPATH"] = str(ROOT / "src" / "core")
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, address],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert re.search(answer, done.stdout), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
