"""--mode track: what is sent once, what a failure costs, a run that is followed, against the services themselves."""

import json
import math
import os
import struct
import time
from unittest.mock import MagicMock

import pytest
from commands.test_cli import refused  # noqa: F401

from longstride.cli import main
from longstride.commands.track import command, to_mlflow, to_wandb
from longstride.commands.track.tracker import TrackingError
from longstride.training.run_directory.lock import RunLock
from longstride.training.run_directory.metrics_log import scalars

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

    target = "somewhere"

    def __init__(self):
        self.opened, self.sent, self.files, self.closed, self.failures = [], [], [], [], 0

    def open(self, facts, sent):
        self.opened.append((facts, sent.run))
        self.run, self.iteration = sent.run or "run-1", sent.iteration
        return self

    def send(self, records):
        if self.failures:
            self.failures -= 1
            raise TrackingError("The service is away.")
        self.sent += [r["iteration"] for r in records]
        self.iteration = self.sent[-1]

    def send_file(self, path):
        self.files.append(path.name)

    def close(self, ended):
        self.closed.append(ended)
        return ["See it there."]


@pytest.fixture
def service(monkeypatch):
    fake = FakeService()
    monkeypatch.setitem(command.SERVICES, "wandb", (fake.open, lambda: fake.target))
    return fake


def test_each_iteration_and_file_is_sent_once(run, service, capsys):
    assert track(run, "wandb") == 0
    assert (service.sent, service.files, service.closed) == ([1, 2, 3], ["report.html"], [True])
    facts, _ = service.opened[0]
    assert (facts.name, facts.settings, facts.units) == ("my run", SETTINGS, {"cash": "euros"})
    assert capsys.readouterr().out == "Sent 3 iterations; 3 iterations are there.\nSee it there.\n"
    assert track(run, "wandb") == 0
    assert capsys.readouterr().out == "Everything is there: 3 iterations in run run-1 of somewhere.\n"
    assert len(service.opened) == 1
    append(run, 4)
    (run / "learning_curve.png").write_bytes(b"curve")
    (run / "report.html").write_text("<p>longer</p>")
    assert track(run, "wandb") == 0
    assert service.sent == [1, 2, 3, 4]
    assert service.files == ["report.html", "report.html", "learning_curve.png"]
    assert service.opened[1][1] == "run-1", "the same run"
    service.target = "elsewhere"
    assert track(run, "wandb") == 0
    assert service.opened[2][1] == "", "another run in another place"


def test_what_a_failure_lost_is_sent_by_the_next_call(run, service, refused):  # noqa: F811
    service.failures = 1
    assert refused("--mode", "track", "--run-directory", run, "--to", "wandb") == "The service is away."
    assert service.closed == [False]
    assert track(run, "wandb") == 0
    assert service.sent == [1, 2, 3]


def test_a_run_is_followed_until_its_training_ends(run, service, monkeypatch, capsys):
    """The training itself waits for nothing: it only writes its files."""
    lock, steps = RunLock(run), []

    def sleep(seconds):
        steps.append(seconds)
        if len(steps) == 1:
            append(run, 4)
            service.failures = 2
        elif len(steps) == 4:
            append(run, 5)
            lock.release()
        elif len(steps) == 5:  # the report of the whole run comes after the end
            (run / "report.html").write_text("<p>of all</p>")
        assert len(steps) < 9

    os.utime(run / "report.html", (1, 1))
    monkeypatch.setattr(command.time, "sleep", sleep)
    assert track(run, "wandb", "--follow") == 0
    assert (service.sent, service.files, service.closed) == ([1, 2, 3, 4, 5], ["report.html"], [True])
    assert capsys.readouterr().out.count("The service is away. Trying again.") == 1
    assert len(service.opened) == 1


def test_a_run_that_trains_is_not_called_finished_and_a_stop_keeps_what_was_sent(run, service, monkeypatch, capsys):
    lock = RunLock(run)
    assert track(run, "wandb") == 0
    assert service.closed == [False]

    def interrupt(seconds):
        raise KeyboardInterrupt

    append(run, 4)
    monkeypatch.setattr(command.time, "sleep", interrupt)
    assert track(run, "wandb", "--follow") == 130
    lock.release()
    assert json.loads((run / "tracking-wandb.json").read_text())["somewhere"]["iteration"] == 4
    assert track(run, "wandb") == 0
    assert service.sent == [1, 2, 3, 4]


def test_what_is_wrong_is_said(run, service, refused, tmp_path):  # noqa: F811
    assert refused("--mode", "track", "--run-directory", run).startswith("--mode track needs --run-directory DIR and")
    assert refused("--mode", "track", "--to", "wandb").startswith("--mode track needs --run-directory DIR and")
    nothing = refused("--mode", "track", "--run-directory", tmp_path / "no", "--to", "wandb", "--follow")
    assert nothing == f"{tmp_path / 'no'} has no metrics.jsonl with an iteration; name the directory of a run."
    assert refused("--mode", "train", "--to", "wandb") == "--to does not go with --mode train. It goes with track."
    for content in ("{", '{"somewhere": {"words": 1}}', "[]"):
        (run / "tracking-wandb.json").write_text(content)
        message = refused("--mode", "track", "--run-directory", run, "--to", "wandb")
        assert message == f"{run / 'tracking-wandb.json'} is damaged; remove it to send the run anew."


def test_a_second_command_does_not_send_the_same_run_a_second_time(run, service, refused, monkeypatch):  # noqa: F811
    lock = RunLock(run, run / "tracking-wandb.lock", "sends it to wandb; wait for it, or stop it")
    message = refused("--mode", "track", "--run-directory", run, "--to", "wandb")
    assert message == f"{run} is in use: process {os.getpid()} sends it to wandb; wait for it, or stop it."
    monkeypatch.setitem(command.SERVICES, "mlflow", command.SERVICES["wandb"])
    assert track(run, "mlflow") == 0, "another service at the same time"
    lock.release()
    assert track(run, "wandb") == 0
    assert service.sent == [1, 2, 3, 1, 2, 3]


def test_a_service_is_asked_again_where_the_command_was_stopped_before_it_had_everything(run, service, monkeypatch):
    """W&B's package takes what it is given at once, and uploads it later."""

    def stopped(ended):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(service, "close", stopped)
        assert track(run, "wandb") == 130
    assert track(run, "wandb") == 0
    assert (len(service.opened), service.closed) == (2, [True])
    assert track(run, "wandb") == 0
    assert len(service.opened) == 2, "now it has everything"


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_without_a_package_a_sentence_names_the_extra(name, run, refused, monkeypatch):  # noqa: F811
    monkeypatch.setitem(__import__("sys").modules, name, None)
    message = refused("--mode", "track", "--run-directory", run, "--to", name)
    assert message.endswith(f'pip install "longstride[{name}]".')


def test_mlflow_has_the_run(run, tmp_path, monkeypatch, capsys, refused):  # noqa: F811
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setattr(to_mlflow, "_MOST_METRICS", 12)  # so that three iterations take several batches
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
    remembered = run / "tracking-mlflow.json"
    remembered.write_text(remembered.read_text().replace('"iteration": 3', '"iteration": 1'))
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
    (run / "tracking-wandb.json").write_text(json.dumps({"longstride": {"run": "a", "iteration": 3, "closed": False}}))
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
    settings = {item.key: json.loads(item.value_json) for item in begun.config.update}
    assert {name: settings[name] for name in SETTINGS} == SETTINGS
    assert settings["units"] == {"cash": "euros"}
    assert (begun.display_name, begun.project) == ("my run", "longstride")
    assert begun.run_id == json.loads((run / "tracking-wandb.json").read_text())["longstride"]["run"]
    sent = [found.artifact for found in records if found.WhichOneof("record_type") == "artifact"]
    assert [entry.path for artifact in sent for entry in artifact.manifest.contents] == ["report.html"]
