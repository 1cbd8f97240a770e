"""Runs played again: the same hashes, what differs, what fails as it failed, and what cannot be brought back."""

import hashlib
import json

import numpy as np
import pytest
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, PARALLEL, SEED, actor_weights, toy_collector, toy_episodes, toy_model
from oracles.toy_simulators import Choices, Shop, Squashed, Tracker

pytest.importorskip("pydantic")

from longstride.cli import main
from longstride.rollout.fault_locator import FaultLocator, ReplayedInstance, StepSnapshot
from longstride.rollout.trajectory import digest
from longstride.seeding import stream
from longstride.simulators.simulator import new_state

SMALL = ["--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--num-epochs", "2"]
CARTPOLE = [*["--simulator", "cartpole", "--rollout-steps", "300", "--num-envs", "2", "--seed", "3"], *SMALL]


def train(directory, *flags):
    return main(["--mode", "train", "--run-directory", str(directory), *flags])


def replay(directory, iteration, *flags):
    return main(["--mode", "replay", "--run-directory", str(directory), "--iteration", str(iteration), *flags])


def contents(directory):
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("replay") / "run"
    assert train(directory, "--training-episodes", "6", *CARTPOLE) == 0
    return directory


@pytest.mark.parametrize(("iteration", "resumed"), [(1, None), (2, None), (5, 4), (6, 5)])
def test_every_iteration_from_the_nearest_checkpoint_on_is_the_same(run, iteration, resumed, capsys):
    before = contents(run)
    assert replay(run, iteration) == 0
    out = capsys.readouterr().out
    assert (f"Resuming after iteration {resumed} of 6" in out) == (resumed is not None)
    for number in range((resumed or 0) + 1, iteration + 1):
        assert f"Iteration {number}: the same 600 steps as in the run" in out
    assert contents(run) == before


def test_the_iteration_after_the_last_and_beyond(run, capsys):
    assert replay(run, 7) == 0
    assert (
        "Iteration 7: 600 steps without a failure; metrics.jsonl has no hash to compare with."
        in capsys.readouterr().out
    )
    assert replay(run, 8) == 2
    assert "--iteration is 8, but the run in" in capsys.readouterr().err


def test_other_settings_are_found_out(run, capsys):
    assert replay(run, 3, "--learning-rate-actor", "0.02") == 1
    out = capsys.readouterr().out
    assert "Iteration 1: the same" in out and "Iteration 2: other steps than in the run" in out


def test_a_run_that_failed_fails_again_at_the_same_place(tmp_path, capsys, monkeypatch):
    """The trap lies in the second rollout, beyond what is checked before a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.py").write_text(TRAP)
    flags = [
        "--simulator",
        "trap.py:Trap",
        "--rollout-steps",
        "200",
        "--training-episodes",
        "4",
        "--episode-time-limit",
        "0",
    ]
    assert train("run", *flags, *SMALL) == 2
    then = capsys.readouterr().err
    assert "step 299: ValueError: sold out (line" in then and " up to 1 are saved." in then
    command = then.rstrip().rpartition("scripts/train.py ")[2].split()
    assert command[:-2] == ["--mode", "replay", "--run-directory", "run"]
    assert command[-2:] in (["--episode", "2"], ["--iteration", "2"])
    assert main(command) == 2
    assert capsys.readouterr().err == then.replace("Iterations up to 1 are saved. ", "")  # a replay saves nothing


TRAP = """
import numpy as np
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete


class Trap(Simulator):
    observation_size = 1
    action_space = Discrete(2)
    max_steps = 400
    state_dtype = np.dtype([("count", np.int64)])

    def reset(state, parameters, rng):
        state.count = 0

    def observe(state, parameters, observation):
        observation[0] = state.count

    def step(state, parameters, action, rng):
        state.count += 1
        if state.count == 300:
            raise ValueError("sold out")
        return 1.0 * action, False
"""


def test_an_environment_of_gymnasium_is_played_from_the_beginning(tmp_path, capsys):
    flags = ["--simulator", "gymnasium:CartPole-v1", "--rollout-steps", "100", "--training-episodes", "3"]
    assert train(tmp_path / "run", *flags, *SMALL) == 0
    assert replay(tmp_path / "run", 3) == 0
    out = capsys.readouterr().out
    assert all(f"Iteration {number}: the same 100 steps" in out for number in (1, 2, 3))


def test_a_run_by_the_clock_only_from_its_checkpoints(tmp_path, capsys):
    flags = ["--time-budget", "600s", "--training-episodes", "6", *CARTPOLE]
    assert train(tmp_path / "run", *flags) == 0
    assert replay(tmp_path / "run", 3) == 2
    assert "only iterations right after a checkpoint can be repeated: 1, 5, 6, 7." in capsys.readouterr().err
    assert replay(tmp_path / "run", 6) == 0
    assert "Iteration 6: the same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--iteration 1", "--mode replay needs --run-directory DIR"),
        ("--episode 1", "--mode replay needs --run-directory DIR"),
        ("--episode 1 --run-directory nowhere", "nowhere has none"),
        ("--run-directory nowhere", "--mode replay needs --iteration N"),
        ("--episode 1 --resume", "--resume does not go with --mode replay"),
    ],
)
def test_bad_input_is_a_sentence(flags, sentence, capsys):
    assert main(["--mode", "replay", *flags.split()]) == 2
    assert sentence in capsys.readouterr().err


def test_the_hash_is_the_files_and_moves_with_every_column(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len({record["trajectory_sha256"] for record in records}) == 6
    (episode, *_) = toy_episodes("shop", toy_model("shop"), 1)
    first = digest([episode.trajectory])
    for name in ("actions", "log_probs", "rewards", "elapsed", "control_variate", "terminated", "truncated"):
        changed = getattr(episode.trajectory, name).copy()
        changed[-1] = changed[-1] + 1 if changed.dtype != np.bool_ else ~changed[-1]
        assert digest([episode.trajectory._replace(**{name: changed})]) != first, name


@pytest.mark.parametrize("kind", ["shop", "choices", "tracker", "squashed"])
def test_one_decision_at_a_time_is_the_fused_loop_to_the_bit(kind):
    simulator = {"shop": Shop, "choices": Choices, "tracker": Tracker, "squashed": Squashed}[kind]()
    weights = actor_weights(toy_model(kind))
    fused = [e.trajectory for e in toy_collector(kind).collect(weights, 4, PARALLEL)[0]]
    rows = []

    class Kept(FaultLocator):
        """Keeps each decision."""

        def _step(self, *arguments):
            age = super()._step(*arguments)
            rows.append([column[0].copy() for column in self.trajectory[1:-1]])
            return age

    sizes = (simulator.observation_size, *HIDDEN, simulator.action_space.outputs)
    kept = Kept(simulator, actor_spec(simulator, sizes, RELU[kind]), weights)
    streams = lambda number: (stream(SEED, "simulator", number), stream(SEED, "policy", number))  # noqa: E731
    record = new_state(simulator).tobytes()
    copies = [ReplayedInstance("", streams, StepSnapshot(4 + i, -1, record, {}, {}), None) for i in range(PARALLEL)]
    assert kept.play(copies) is None
    assert len(rows) == sum(t.steps for t in fused)
    for i, name in enumerate(fused[0]._fields[1:-1]):
        stepped = np.array([row[i] for row in rows])
        assert stepped.tobytes() == np.concatenate([getattr(t, name) for t in fused]).tobytes(), name


RELU = {"shop": "relu", "choices": "relu", "tracker": "tanh", "squashed": "relu"}
