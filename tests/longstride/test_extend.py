"""The parts that a program brings along: callbacks, an algorithm, a network; and environments as objects."""

import json

import pytest
from helpers.documentation import blocks, page

pytest.importorskip("pydantic")

from longstride import Hyperparameters, StopTraining, UserError, evaluate, load_policy, train
from longstride.cli import main
from longstride.policies.families.families import FAMILIES
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.training.run_directory.checkpoint import load_checkpoint

SMALL = {"num_envs": 4, "rollout_steps": 128, "batch_size": 64, "num_hidden_layers": 1, "actor_hidden_size": 16}


def small(episodes=2, **changes):
    return Hyperparameters(training_episodes=episodes, **{**SMALL, **changes})


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Return the names of the guide's three examples after they have run, and their folder."""
    folder, names = tmp_path_factory.mktemp("extend"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in blocks(page("how-to/extend-a-training.md"), "python"):
            exec(compile(block, "extend-a-training.md", "exec"), names)  # the project's own documentation
            names[f"run {names['run'].directory.name}"] = names["run"]
        yield names, folder
    FAMILIES.pop("softsign"), TORCH_FAMILIES.pop("softsign")


def records(examples, name):
    return examples[0][f"run {name}"].metrics


def config(examples, name):
    return json.loads((examples[1] / "runs" / name / "config.json").read_text())


def test_a_callback_adds_figures_and_changes_nothing_that_is_learned(examples, tmp_path):
    watched = records(examples, "watched")
    assert all(record["figures"]["seconds_per_step"] > 0 for record in watched)
    assert config(examples, "watched")["extensions"] == {"callbacks": ["Watch"]}
    alone = train("cartpole", examples[0]["settings"], run_directory=tmp_path / "alone", quiet=True, report=False)
    assert [r["policy_loss"] for r in alone.metrics] == [r["policy_loss"] for r in watched]


def test_a_further_term_of_the_loss_is_minimised_and_recorded(examples):
    small, plain = records(examples, "small"), records(examples, "watched")
    assert all(record["output_square"] > 0 for record in small)
    assert small[0]["initial_ratio_error"] < 1e-4
    assert small[-1]["policy_loss"] != plain[-1]["policy_loss"]
    assert config(examples, "small")["extensions"] == {"algorithm": "small_outputs"}


def test_a_network_plays_what_it_trains_and_is_loaded_again(examples):
    assert all(record["initial_ratio_error"] < 1e-4 for record in records(examples, "softsign"))
    policy = load_policy(examples[1] / "runs" / "softsign")
    assert policy.act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    assert "trained" in evaluate(examples[0]["run softsign"], episodes=2, quiet=True).rows


def test_what_a_run_began_with_is_asked_for_again(examples, capsys):
    directory = examples[1] / "runs" / "small"
    with pytest.raises(UserError, match=r"trained with algorithm=small_outputs of a program; resume it there: "):
        train("cartpole", run_directory=directory, resume=True, quiet=True)
    run = train(
        *("cartpole", Hyperparameters(training_episodes=5)),
        **{"run_directory": directory, "resume": True, "algorithm": examples[0]["small_outputs"], "quiet": True},
    )
    assert len(run.metrics) == 5
    with pytest.raises(UserError, match="began without algorithm="):
        train(
            *("cartpole", Hyperparameters(training_episodes=5)),
            **{"run_directory": examples[1] / "runs" / "watched", "resume": True, "quiet": True},
            algorithm=examples[0]["small_outputs"],
        )
    FAMILIES.pop("softsign")
    try:
        with pytest.raises(UserError, match=r"has the network softsign, which this process does not know"):
            load_policy(examples[1] / "runs" / "softsign")
        assert main(["evaluate", "--checkpoint", str(examples[1] / "runs" / "softsign")]) == 2
        assert "longstride.add_network" in capsys.readouterr().err
    finally:
        FAMILIES["softsign"] = examples[0]["softsign"].family


def test_a_callback_may_end_a_run_and_a_faulty_one_loses_nothing(tmp_path, capsys):
    def enough(record):
        if record["iteration"] == 2:
            raise StopTraining("enough")

    run = train("cartpole", small(5), run_directory=tmp_path / "a", callbacks=[enough])
    assert (run.completed, len(run.metrics)) == (False, 2)
    assert "enough ends the training: enough." in capsys.readouterr().out

    def faulty(record):
        record.clear()
        return {"a": record["none"]}

    with pytest.raises(UserError, match=r"faulty failed with KeyError: 'none' \(line \d+ of .*The iteration is saved"):
        train("cartpole", small(5), run_directory=tmp_path / "b", callbacks=[faulty], quiet=True)
    (record,) = [json.loads(line) for line in (tmp_path / "b" / "metrics.jsonl").read_text().splitlines()]
    assert record["policy_loss"]
    assert load_checkpoint(tmp_path / "b")[1]["iteration"] == 1


def test_the_same_cell_can_run_again(tmp_path):
    note = tmp_path / "run" / "note.txt"
    for _ in range(2):
        run = train("cartpole", small(1), run_directory=tmp_path / "run", exist_ok=True, quiet=True, report=False)
        note.write_text("mine")
    assert (len(run.metrics), note.read_text()) == (1, "mine")
    with pytest.raises(UserError, match="already holds a run; pass resume=True"):
        train("cartpole", small(1), run_directory=tmp_path / "run", quiet=True)
    with pytest.raises(UserError, match="exist_ok=True needs run_directory=, the folder of the run"):
        train("cartpole", small(1), exist_ok=True, quiet=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"callbacks": [3]},
            "callbacks: 3 is not a function and has none of on_start, on_iteration, on_ev",
        ),
        ({"algorithm": 3}, "algorithm: 3 is not a function; pass one that takes the algorithm"),
        ({"algorithm": lambda ppo: 3}, "returned 3, which lacks needs_critic"),
        ({"network": 3}, "network: 3 is not a longstride.Network."),
    ],
)
def test_other_things_are_refused(arguments, sentence, tmp_path):
    with pytest.raises(UserError) as error:
        train("cartpole", small(1), run_directory=tmp_path / "run", quiet=True, **arguments)
    assert sentence in str(error.value)


def test_a_callback_sees_the_beginning_and_the_end_and_its_failures_are_said(tmp_path, capsys):
    class Seen:
        def on_start(self, directory, settings):
            self.begun = directory, settings["num_envs"]

        def on_end(self):
            self.saved = (self.begun[0] / "learning_curve.png").exists()
            raise ValueError("the lamp is broken")

    seen = Seen()
    assert train("cartpole", small(1), run_directory=tmp_path / "run", callbacks=[seen]).completed
    assert (seen.begun, seen.saved) == ((tmp_path / "run", 4), True)
    assert "Seen.on_end failed with ValueError: the lamp is broken" in " ".join(capsys.readouterr().out.split())
    del Seen.on_end
    Seen.on_start = lambda *_: 1 / 0
    with pytest.raises(UserError, match="on_start failed with ZeroDivisionError"):
        train("cartpole", small(1), run_directory=tmp_path / "other", callbacks=[seen], quiet=True)
