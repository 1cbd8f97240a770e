"""Settings of a run that continues: its own, but for the flags that are given now."""

import json

import pytest

pytest.importorskip("pydantic")

from longstride.config import Config
from longstride.errors import UserError
from longstride.settings import Settings, load_settings
from longstride.simulators.loading import load_simulator
from longstride.training.assembly.presets import with_real_defaults
from longstride.training.assembly.resumed_settings import resumed_settings
from longstride.training.assembly.run_settings import read_config, resumes_of
from longstride.training.run_directory.directory import RunDirectory


@pytest.fixture
def resume(tmp_path):
    """Return a function that resumes a run that began with a file and flags, with those given now."""

    def write(name, values):
        path = tmp_path / name
        path.write_text("".join(f"{key} = {value!r}\n" for key, value in values.items()))
        return path

    def resumed(began_file, began_flags, file, flags, **changes):
        run = {"run_directory": str(tmp_path / "run")}
        began = load_settings(write("began.py", began_file), {**began_flags, **run})
        content = {"values": began.config.model_dump() | changes.get("values", {}), "sources": dict(began.sources)}
        content["sources"] |= changes.get("sources", {})
        for name in changes.get("without", ()):
            del content["values"][name], content["sources"][name]
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "config.json").write_text(json.dumps(content))
        return resumed_settings(load_settings(write("now.py", file), {**flags, **run}))

    return resumed


def test_flags_win_over_the_run_and_the_run_over_the_file(resume):
    found = resume({"GAMMA": 0.9, "NUM_EPOCHS": 5}, {"seed": "4"}, {"GAMMA": 0.5, "NUM_EPOCHS": 6}, {"num_epochs": "7"})
    assert (found.config.gamma, found.config.num_epochs, found.config.seed) == (0.9, 7, 4)
    origins = [found.sources[name] for name in ("gamma", "num_epochs", "seed", "horizon")]
    assert origins == ["file", "flag", "flag", "default"]
    said = "The run keeps its own settings; hyperparameters.py differs (a flag wins): GAMMA 0.5 there, 0.9 in the run."
    assert found.notes == (said,)


def test_a_default_in_the_file_is_no_change_where_a_flag_or_a_rule_chose_the_value(resume):
    prior = {"values": {"num_epochs": 1}, "sources": {"num_epochs": "prior"}}
    shipped = {"GAMMA": 0.0, "NUM_EPOCHS": 3, "SIMULATOR": "process"}
    began = {"gamma": "0.9", "simulator": "cartpole"}
    assert resume(shipped, began, shipped, {}, **prior).notes == ()
    edited = resume(shipped, began, {**shipped, "NUM_EPOCHS": 2}, {}, **prior)
    assert edited.config.num_epochs == 1
    assert edited.notes[0].endswith(": NUM_EPOCHS 2 there, 1 in the run.")
    back = resume({"GAMMA": 0.9}, {}, {"GAMMA": 0.0}, {})
    assert back.notes[0].endswith(": GAMMA 0.0 there, 0.9 in the run."), "the file itself had chosen it"


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"actor_hidden_size": "64"}, "ACTOR_HIDDEN_SIZE is 64 now and 128 in the run: "),
        (
            {"policy_network": "mingru", "num_hidden_layers": "2"},
            "POLICY_NETWORK is 'mingru' now and 'mlp' in the run, NUM_HIDDEN_LAYERS is 2 now and 3 in the run: ",
        ),
    ],
)
def test_the_network_cannot_change(resume, flags, names):
    with pytest.raises(UserError) as error:
        resume({}, {}, {}, flags)
    assert str(error.value) == (
        f"{names}the network of a run cannot change; leave that out, or train a new run in another --run-directory."
    )
    assert resume({}, {}, {}, {"actor_hidden_size": "128"}).notes == (), "the same value is no change"
    kept = resume({}, {}, {"ACTOR_HIDDEN_SIZE": 64}, {})
    assert kept.config.actor_hidden_size == 128
    assert kept.notes[0].endswith(": ACTOR_HIDDEN_SIZE 64 there, 128 in the run.")


def test_a_run_of_another_version(resume):
    found = resume({}, {}, {}, {}, values={"warmth": 3, "num_epochs": 2}, without=["adam_epsilon_actor"])
    assert found.config == Config(num_epochs=2, run_directory=found.config.run_directory)
    assert found.sources["adam_epsilon_actor"] == "run"
    assert found.notes[0].endswith("config.json has settings that this version does not know: WARMTH.")


def test_a_run_without_its_time_budget_has_an_end(resume):
    by_time = {"values": {"training_episodes": 10**9}, "sources": {"training_episodes": "time_budget"}}
    assert resume({}, {"time_budget": "1h"}, {}, {}, **by_time).config.training_episodes == 10**9
    assert resume({}, {"time_budget": "1h"}, {}, {"time_budget": "2h"}, **by_time).config.training_episodes == 10**9
    assert resume({}, {"time_budget": "1h"}, {}, {"time_budget": ""}, **by_time).config.training_episodes == 50
    named = resume({}, {"time_budget": "1h"}, {}, {"time_budget": "", "training_episodes": "7"}, **by_time)
    assert named.config.training_episodes == 7


def test_a_run_of_some_steps_goes_on_for_the_iterations_that_a_flag_names(resume):
    by_steps = {"values": {"training_episodes": 5}, "sources": {"training_episodes": "total_steps"}}
    found = resume({}, {"total_steps": "1000"}, {}, {"training_episodes": "7"}, **by_steps).config
    assert (found.training_episodes, found.total_steps) == (7, 0)
    assert resume({}, {"total_steps": "1000"}, {}, {"total_steps": "2000"}, **by_steps).config.total_steps == 2000


def test_resumes_that_change_what_is_learned_are_kept(tmp_path):
    def earlier(config, resumed):
        content = {"values": json.loads(json.dumps(config.model_dump())), "resumed": resumed}
        (tmp_path / "config.json").write_text(json.dumps(content))
        return read_config(RunDirectory(tmp_path))

    first, longer = Config(training_episodes=4), Config(training_episodes=6, learning_rate_actor=1e-4)
    begun = earlier(first, [])
    assert resumes_of(Config(training_episodes=4, evaluate_every=1), begun, 2) == []
    resumed = resumes_of(longer, begun, 4)
    assert resumed == [{"after_iteration": 4, "before": {"training_episodes": 4, "learning_rate_actor": 3e-4}}]
    changed = earlier(longer, resumed)
    assert resumes_of(longer, changed, 5) == resumed
    again = resumes_of(first, changed, 6)
    assert again[1]["before"] == {"training_episodes": 6, "learning_rate_actor": 1e-4}


def test_without_a_run_the_settings_are_those_given(tmp_path):
    given = Settings(Config(gamma=0.9, run_directory=str(tmp_path)), {"gamma": "flag"})
    assert resumed_settings(given) is given
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        resumed_settings(given)


def test_a_run_of_an_earlier_version_keeps_its_bonus_with_real_valued_actions(resume):
    """It was the default then; what a file chose stays a file's."""
    pendulum = load_simulator("pendulum", {}).simulator
    older = with_real_defaults(resume({}, {"simulator": "pendulum"}, {}, {}), pendulum)
    assert (older.config.entropy_coefficient, older.sources["entropy_coefficient"]) == (0.03, "default")
    asked = resume({}, {"simulator": "pendulum", "entropy_coefficient": "0.03"}, {}, {})
    assert asked.sources["entropy_coefficient"] == "flag"
    assert with_real_defaults(asked, pendulum) == asked
    chosen = with_real_defaults(resume({"ENTROPY_COEFFICIENT": 0.01}, {}, {}, {}), pendulum)
    assert (chosen.config.entropy_coefficient, chosen.sources["entropy_coefficient"]) == (0.01, "file")
    today = {"values": {"entropy_coefficient": 0.0}, "sources": {"entropy_coefficient": "actions"}}
    newer = with_real_defaults(resume({}, {}, {}, {}, **today), pendulum)
    assert (newer.config.entropy_coefficient, newer.sources["entropy_coefficient"]) == (0.0, "actions")
