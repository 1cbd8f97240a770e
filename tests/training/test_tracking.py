"""TRACK and --mode track: what is sent once, what a failure costs, against the services themselves."""

import json
import math
import struct
import time
from unittest.mock import MagicMock

import pytest
from commands.test_cli import refused  # noqa: F401

from longstride import Hyperparameters, train
from longstride.cli import main
from longstride.training.run_directory.lock import RunLock
from longstride.training.run_directory.metrics_log import scalars
from longstride.training.tracking import services, to_mlflow, to_wandb
from longstride.training.tracking.tracking import TrackingError

SETTINGS = {"gamma": 0.9, "simulator_options": {"max_steps": 5}, "use_tf32": True, "simulator": "toy.py:Toy"}


def record(iteration):
    return {
        **{"iteration": iteration, "steps": 10, "return": -iteration / 3, "precision": "fp32"},
        **{"metrics": {"cash": 1.5 * iteration, "by_kind": [1, 2]}, "units": {"cash": "euros"}, "evaluation": None},
        **({"entropy": math.nan} if iteration == 2 else {}),
    }


def append(directory, *iterations):
    with (directory / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(record(i)) + "\n" for i in iterations)


@pytest.fixture
def run(tmp_path):
    """Return a run directory with three iterations."""
    directory = tmp_path / "my run"
    directory.mkdir()
    append(directory, 1, 2, 3)
    (directory / "config.json").write_text(json.dumps({"values": SETTINGS}))
    (directory / "report.html").write_text("<p>report</p>")
    return directory


def track(directory, service, *flags):
    return main(["--mode", "track", "--run-directory", str(directory), "--to", service, *flags])


class FakeService:
    """A service with a single run, which fails on demand."""

    def __init__(self):
        self.opened, self.sent, self.files, self.closed, self.fails_at = [], [], [], 0, None

    def open(self, directory, settings, run):
        self.opened.append((directory.name, settings, run))
        self.run, self.iteration = run or "run-1", self.sent[-1] if run and self.sent else 0
        return self

    def send(self, record):
        if record["iteration"] == self.fails_at:
            raise TrackingError("The service is away.")
        self.sent.append(record["iteration"])
        self.iteration = self.sent[-1]

    def send_file(self, path):
        self.files.append(path.name)

    def close(self):
        self.closed += 1
        return ["See it there."]


@pytest.fixture
def service(monkeypatch):
    fake = FakeService()
    monkeypatch.setattr(services, "WandbRun", fake.open)
    monkeypatch.setattr(services, "wandb_target", lambda: "somewhere")
    return fake


def test_a_run_that_has_ended_is_sent_once(run, service, capsys):
    assert track(run, "wandb") == 0
    assert (service.sent, service.files, service.closed) == ([1, 2, 3], ["report.html"], 1)
    assert service.opened[0] == ("my run", SETTINGS, "")
    assert capsys.readouterr().out == "Sent 3 iterations; 3 iterations are there.\nSee it there.\n"
    append(run, 4)
    assert track(run, "wandb") == 0
    assert (service.sent, service.opened[1][2]) == ([1, 2, 3, 4], "run-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "wandb_target", lambda: "elsewhere")
        assert track(run, "wandb") == 0
    assert service.opened[2][2] == "", "another run in another place"


def test_a_training_is_sent_while_it_goes_on_and_a_failure_does_not_end_it(service, tmp_path, capsys):
    settings = Hyperparameters(training_episodes=3, num_envs=1, rollout_steps=64, batch_size=32, track="wandb")
    service.fails_at = 2
    run = train("cartpole", settings, run_directory=tmp_path / "run", report=False)
    assert run.completed
    assert (service.sent, service.closed) == ([1], 0)
    assert service.opened[0][1]["rollout_steps"] == 64
    assert "The service is away. Nothing more is sent;" in " ".join(capsys.readouterr().out.split())
    service.fails_at = None
    assert track(run.directory, "wandb") == 0
    assert (service.sent, service.closed) == ([1, 2, 3], 1)


def test_a_failure_of_the_mode_is_its_exit_code(run, service, capsys):
    service.fails_at = 2
    assert track(run, "wandb") == 2
    assert capsys.readouterr().out.startswith("The service is away. Nothing more is sent;")


def test_what_is_wrong_is_said(run, service, refused, tmp_path):  # noqa: F811
    assert refused("--mode", "track", "--run-directory", run).startswith("--mode track needs --run-directory DIR and")
    assert refused("--mode", "track", "--to", "wandb").startswith("--mode track needs --run-directory DIR and")
    nothing = refused("--mode", "track", "--run-directory", tmp_path / "no", "--to", "wandb")
    assert nothing == f"{tmp_path / 'no'} has no metrics.jsonl with an iteration; name the directory of a run."
    assert refused("--mode", "track", "--follow").startswith("--follow is gone: train with --track wandb or")
    assert refused("--mode", "train", "--to", "wandb") == "--to does not go with --mode train. It goes with track."
    for content in ("{", '{"somewhere": {"run": 1}}', "[]"):
        (run / "tracking-wandb.json").write_text(content)
        message = refused("--mode", "track", "--run-directory", run, "--to", "wandb")
        assert message == f"{run / 'tracking-wandb.json'} is damaged; remove it to send the run again."


def test_a_run_that_trains_is_not_sent_by_a_second_process(run, service, refused):  # noqa: F811
    lock = RunLock(run)
    assert "is in use: process" in refused("--mode", "track", "--run-directory", run, "--to", "wandb")
    lock.release()


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_without_a_package_a_sentence_names_the_extra(name, run, refused, monkeypatch):  # noqa: F811
    monkeypatch.setitem(__import__("sys").modules, name, None)
    message = refused("--mode", "track", "--run-directory", run, "--to", name)
    assert message.endswith(f'pip install "longstride[{name}]".')


def test_mlflow_has_the_run(run, tmp_path, monkeypatch, capsys, refused):  # noqa: F811
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setattr(to_mlflow, "_MOST_METRICS", 2)  # so that an iteration takes several batches
    assert track(run, "mlflow") == 0
    client = mlflow.MlflowClient((tmp_path / "store").as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("longstride").experiment_id])
    assert found.data.params == {
        **{"gamma": "0.9", "simulator_options": '{"max_steps": 5}', "use_tf32": "true", "simulator": "toy.py:Toy"}
    }
    assert found.data.tags["unit.cash"] == "euros"
    assert (found.info.run_name, found.info.status) == ("my run", "FINISHED")

    def history(name):
        return [(m.step, m.value) for m in client.get_metric_history(found.info.run_id, name)]

    expected = {}
    for each in map(record, (1, 2, 3)):
        for name, value in scalars(each):
            expected.setdefault(name, []).append((each["iteration"], value))
    assert set(found.data.metrics) == set(expected) >= {"metrics/cash", "return", "entropy"}
    for name, values in expected.items():
        assert str(history(name)) == str(values), name  # as text, for NaN
    assert [file.path for file in client.list_artifacts(found.info.run_id)] == ["report.html"]
    append(run, 4)
    (run / "config.json").write_text(json.dumps({"values": {**SETTINGS, "gamma": 0.8, "seed": 1}}))
    capsys.readouterr()
    assert track(run, "mlflow") == 0
    out = capsys.readouterr().out
    assert "Sent 1 iteration; 4 iterations are there." in out, "the service knows better what it has"
    assert "MLflow keeps the first value of a parameter, other than GAMMA now." in out
    assert history("metrics/cash") == [(1, 1.5), (2, 3.0), (3, 4.5), (4, 6.0)]
    assert client.get_run(found.info.run_id).data.params["seed"] == "1"
    client.delete_run(found.info.run_id)
    append(run, 5)
    message = refused("--mode", "track", "--run-directory", run, "--to", "mlflow")
    assert message.startswith("MLflow: ") and "delete" in message


def test_mlflow_has_metrics_whose_names_it_does_not_allow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    (tmp_path / "run").mkdir()
    line = {"iteration": 1, "metrics": {"arrivals [/h]": 2.5}, "units": {"arrivals [/h]": "1/h"}}
    (tmp_path / "run" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"values": SETTINGS}))
    assert track(tmp_path / "run", "mlflow") == 0
    client = mlflow.MlflowClient((tmp_path / "store").as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("longstride").experiment_id])
    assert found.data.metrics["metrics/arrivals _/h_"] == 2.5
    assert found.data.tags["unit.arrivals _/h_"] == "1/h"


def test_no_password_is_shown_or_kept(run, monkeypatch, refused):  # noqa: F811
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    message = refused("--mode", "track", "--run-directory", run, "--to", "mlflow")
    assert message.startswith("MLflow: API request to http://127.0.0.1:9/")
    assert to_mlflow.mlflow_target() == "http://127.0.0.1:9 longstride"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:p@ss@127.0.0.1:9")
    assert to_mlflow.mlflow_target() == "http://127.0.0.1:9 longstride"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////tmp/mlflow.db")
    assert to_mlflow.mlflow_target() == "sqlite:////tmp/mlflow.db longstride"


def test_the_address_of_a_run_on_a_server_has_no_password(run, monkeypatch, capsys):
    """MLflow itself prints it with the password that it was given."""
    mlflow = pytest.importorskip("mlflow")
    client = MagicMock()
    client.get_experiment_by_name.return_value.experiment_id = "7"
    client.create_run.return_value.info.run_id = "abc"
    client.get_run.return_value.data.tags = client.get_run.return_value.data.params = {}
    client.get_run.return_value.info.experiment_id = "7"
    client.set_terminated.side_effect = lambda *_: print("View run at http://user:secret@host:5000")
    monkeypatch.setattr(mlflow, "MlflowClient", lambda: client)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@host:5000/")
    assert track(run, "mlflow") == 0
    out = capsys.readouterr().out
    assert "secret" not in out
    assert out.splitlines()[-1] == "MLflow: http://host:5000/#/experiments/7/runs/abc"


def test_wandb_that_sends_nothing_is_not_taken_for_one_that_has_the_run(run, monkeypatch, refused):  # noqa: F811
    wandb = MagicMock()
    monkeypatch.setattr(to_wandb, "_import_wandb", lambda: wandb)
    wandb.Settings.side_effect = ValueError("1 error\nmode: should be online")  # as of WANDB_MODE=nonsense
    message = refused("--mode", "track", "--run-directory", run, "--to", "wandb")
    assert message == "W&B: 1 error mode: should be online; or set WANDB_MODE=offline and upload later."
    wandb.Settings.side_effect = None
    wandb.init.return_value.disabled = True
    message = refused("--mode", "track", "--run-directory", run, "--to", "wandb")
    assert message == "W&B: WANDB_MODE says that nothing is sent."
    assert not (run / "tracking-wandb.json").exists()


def test_wandb_says_itself_what_it_has(run, monkeypatch):
    """Its own process uploads later: a run that was stopped may have less than it was given."""
    wandb = MagicMock()
    monkeypatch.setattr(to_wandb, "_import_wandb", lambda: wandb)
    wandb.init.return_value.configure_mock(disabled=False, resumed=True, starting_step=2)
    (run / "tracking-wandb.json").write_text(json.dumps({"longstride": {"run": "a", "iteration": 3}}))  # of version 0.1
    for name in ("WANDB_PROJECT", "WANDB_ENTITY"):
        monkeypatch.delenv(name, raising=False)
    assert track(run, "wandb") == 0
    assert [call.kwargs["step"] for call in wandb.init.return_value.log.call_args_list] == [2, 3]


def wandb_records(path):
    """Return the records of W&B's file: the log format of LevelDB behind seven bytes, with messages of protobuf."""
    from wandb.proto import wandb_internal_pb2

    content, at, message = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        if kind == 0:
            break
        message += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the whole of it, or its end
            found = wandb_internal_pb2.Record()
            found.ParseFromString(message)
            yield found
            message = b""


def test_wandb_has_the_run_without_a_network(run, monkeypatch, capsys):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert track(run, "wandb") == 0
    assert "Upload with: wandb sync '" in capsys.readouterr().out
    (file,) = (run / "wandb").glob("offline-run-*/*.wandb")
    until = time.monotonic() + 20
    while True:  # W&B's own process may still be writing
        records = list(wandb_records(file))
        history = [
            {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in found.history.item}
            for found in records
            if found.WhichOneof("record_type") == "history"
        ]
        if len(history) == 3 or time.monotonic() > until:
            break
        time.sleep(0.2)
    assert [row["_step"] for row in history] == [1, 2, 3]
    for row, each in zip(history, map(record, (1, 2, 3)), strict=True):
        for name, value in scalars(each):
            assert str(float(row[name])) == str(value), name  # as text, for NaN
    (begun,) = [found.run for found in records if found.WhichOneof("record_type") == "run"]
    later = [item for found in records if found.WhichOneof("record_type") == "config" for item in found.config.update]
    settings = {item.key: json.loads(item.value_json) for item in [*begun.config.update, *later]}
    assert {name: settings[name] for name in SETTINGS} == SETTINGS
    assert settings["units"] == {"cash": "euros"}
    assert (begun.display_name, begun.project) == ("my run", "longstride")
    assert begun.run_id == json.loads((run / "tracking-wandb.json").read_text())["longstride"]["run"]
    sent = [found.artifact for found in records if found.WhichOneof("record_type") == "artifact"]
    assert [entry.path for artifact in sent for entry in artifact.manifest.contents] == ["report.html"]
