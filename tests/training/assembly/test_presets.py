"""Presets adjust how long is trained and how often evaluated; nothing of the machine, nothing that the user set."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("pydantic")

from helpers.setups import set_up
from helpers.toy_runs import BANDIT_NETWORK
from oracles.toy_simulators import Bandit

from longstride.cli import main
from longstride.config import Config
from longstride.hardware.planning.gpu_catalog import CARDS, machine_with
from longstride.policies.families.transformer.family import block
from longstride.settings import Settings, load_settings
from longstride.simulators.loading import LoadedSimulator, load_simulator
from longstride.simulators.spaces import Box, Discrete
from longstride.training.assembly.plan import plan_run
from longstride.training.assembly.presets import (
    MANY_ACTIONS,
    PRESETS,
    REAL_VALUED,
    WITH_PRIOR,
    apply_prior_defaults,
    complete,
    with_defaults,
    with_network_for_many,
    with_preset,
    with_real_defaults,
    without_bonus,
)
from longstride.training.run_directory.metrics_log import read_metrics
from longstride.training.time_budget import NO_LIMIT

ITERATION_STEPS = 62_000


def preset(name, file="", **flags):
    """Return the values after a preset, where they come from, and the lines."""
    found = with_preset(load_settings(file or None, {"preset": name, **flags}), ITERATION_STEPS)
    names = ("training_episodes", "num_epochs", "evaluate_every")
    return [getattr(found.config, n) for n in names], [found.sources[n] for n in names], list(found.notes)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("quick_test", [162, 10, 25]),  # 10,000,000 / 62,000 = 161.3
        ("standard", [807, 12, 50]),
        ("production", [3226, 15, 100]),
        ("extended", [8065, 20, 200]),
    ],
)
def test_each_preset_by_hand(name, values):
    actual, sources, lines = preset(name)
    assert actual == values
    assert sources == ["preset"] * 3
    millions = {"quick_test": 10, "standard": 50, "production": 200, "extended": 500}[name]
    assert lines == [
        f"Preset {name}: TRAINING_EPISODES = {values[0]}, {millions},000,000 steps at about 62,000 each.",
        f"Preset {name}: NUM_EPOCHS = {values[1]}.",
        f"Preset {name}: EVALUATE_EVERY = {values[2]}.",
    ]


def test_no_preset_changes_nothing():
    settings = load_settings(None, {})
    assert with_preset(settings, ITERATION_STEPS) == settings


def test_a_flag_is_never_overruled_not_even_one_that_repeats_the_default():
    values, sources, lines = preset("standard", training_episodes="50")
    assert values == [50, 12, 50]
    assert sources == ["flag", "preset", "preset"]
    assert lines[0] == "Preset standard leaves TRAINING_EPISODES = 50 alone, set by flag."


def test_a_file_counts_where_it_differs_from_the_default(tmp_path):
    """hyperparameters.py lists every name; 50 there is the default, 7 somebody's choice."""
    file = tmp_path / "mine.py"
    file.write_text("TRAINING_EPISODES = 50\nNUM_EPOCHS = 7\n")
    values, sources, lines = preset("standard", file)
    assert values == [807, 7, 50]
    assert sources == ["preset", "file", "preset"]
    assert lines[1] == "Preset standard leaves NUM_EPOCHS = 7 alone, set by file."


def test_a_preset_in_the_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("PRESET = 'quick_test'\n")
    assert with_preset(load_settings(file, {}), ITERATION_STEPS).config.num_epochs == 10


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("card", [*CARDS, None], ids=lambda card: card.name if card else "cpu")
def test_the_machines_part_is_that_of_no_preset(card, name):
    """A preset that replaced what a card needs by something generic is how ten times the time was once lost."""
    simulator = Bandit()
    machine = machine_with(card) if card else replace(machine_with(CARDS[0]), gpus=(), gpu_note="none")
    settings = load_settings(None, {"num_envs": "4"})  # a longer run may otherwise grow larger rollouts
    plain = settings.config
    adjusted = with_preset(settings.changed({"preset": name}, "flag"), ITERATION_STEPS).config
    assert adjusted.training_episodes != plain.training_episodes, "the preset did something"
    assert plan_run(set_up(adjusted, simulator), machine) == plan_run(set_up(plain, simulator), machine)
    changed = {n for n in Config.model_fields if getattr(adjusted, n) != getattr(plain, n)}
    assert changed == {"preset", "training_episodes", "num_epochs", "evaluate_every"}


def test_a_run_with_a_preset_records_where_its_values_come_from(tmp_path, capsys):
    arguments = ["--simulator", "oracles.toy_simulators:Bandit", *BANDIT_NETWORK, "--device", "cpu", "--num-envs", "1"]
    run = str(tmp_path / "run")
    short = [*arguments, "--training-episodes", "1", "--run-directory", run]
    assert main(["--preset", "quick_test", *short]) == 0
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (content["values"]["training_episodes"], content["sources"]["training_episodes"]) == (1, "flag")
    assert (content["values"]["num_epochs"], content["sources"]["num_epochs"]) == (10, "preset")
    out = capsys.readouterr().out
    assert "Preset quick_test leaves TRAINING_EPISODES = 1 alone, set by flag." in out
    assert "Trained 1 iteration;" in out
    (record,) = read_metrics(tmp_path / "run")
    assert record["evaluation"]["episodes"] == 30, "the last iteration is evaluated whatever the interval"
    assert main(["--mode", "evaluate", "--preset", "quick_test", "--checkpoint", run]) == 0
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["episodes"] == 30, "no preset has a say in it"


def test_an_unknown_preset_is_a_sentence(capsys):
    assert main(["--preset", "fast"]) == 2
    assert (
        "--preset: 'fast' should be '', 'quick_test', 'standard', 'production', 'extended', 'guide' or "
        "'large_transformer'." in capsys.readouterr().err
    )


def test_a_policy_that_starts_from_a_rule_has_defaults_of_its_own():
    """The loan desk's does, the bandit's does not; a value that somebody chose stays."""
    loan_desk = load_simulator("process").simulator
    found = apply_prior_defaults(Settings(Config(gamma=0.9), {"num_epochs": "flag"}), loan_desk)
    config, sources, (line,) = found.config, found.sources, found.notes
    assert (config.grow_rollouts, config.gae_lambda, config.batch_size) == (False, 0.97, 1024)
    assert (config.gamma, config.num_epochs) == (0.9, Config().num_epochs)
    changed = WITH_PRIOR.keys() - {"gamma", "num_epochs"} | {"num_envs"}
    assert sources == {"num_epochs": "flag", **dict.fromkeys(changed, "prior")}
    assert config.num_envs == 1
    assert line.startswith(
        "The policy starts from a rule of the simulator, so these settings differ from the usual defaults: GROW_"
    )
    assert apply_prior_defaults(Settings(Config()), Bandit()) == Settings(Config())


def described(actions, size=5):
    """Return a simulator with so many actions, which it describes with so many figures."""
    many = Bandit()
    many.action_space, many.description_size, many.summary_size = Discrete(actions), size, 3
    return many


def test_a_policy_for_many_described_actions_scores_them_unless_somebody_chose_a_network():
    found = with_network_for_many(Settings(Config()), described(MANY_ACTIONS))
    assert (found.config.policy_network, found.sources) == ("pointer", {"policy_network": "simulation"})
    assert found.notes[0].startswith("POLICY_NETWORK = pointer, because a separate output for each of 1,000 actions")
    for settings, simulator in (
        (Settings(Config()), described(MANY_ACTIONS - 1)),
        (Settings(Config()), described(MANY_ACTIONS, size=0)),
        (Settings(Config(), {"policy_network": "flag"}), described(MANY_ACTIONS)),
        (Settings(Config(policy_network="mingru"), {"policy_network": "file"}), described(MANY_ACTIONS)),
        (Settings(Config(kl_coefficient=0.1), {"kl_coefficient": "flag"}), described(MANY_ACTIONS)),
    ):
        assert with_network_for_many(settings, simulator) == settings


def test_real_valued_actions_have_no_bonus_unless_somebody_chose_one():
    real = Bandit()
    real.action_space = Box([0.0], [1.0])
    found = with_real_defaults(Settings(Config()), real)
    assert (found.config.entropy_coefficient, found.sources) == (0.0, dict.fromkeys(REAL_VALUED, "actions"))
    assert with_defaults(Settings(Config()), real).config.entropy_coefficient == 0.0
    chosen = Settings(Config(entropy_coefficient=0.01), {"entropy_coefficient": "file"})
    asked, older = Settings(Config(), {"entropy_coefficient": "flag"}), Settings(Config(), is_resumed=True)
    final = Settings(Config(entropy_coefficient_final=0.01), {"entropy_coefficient_final": "flag"})
    others = [(settings, real) for settings in (chosen, asked, older, final)]
    for settings, simulator in (*others, (Settings(Config()), Bandit())):
        assert with_real_defaults(settings, simulator) == settings


def test_a_user_who_wants_no_entropy_bonus_gets_no_target_unless_they_chose_one():
    file, flag = {"entropy_coefficient": "file"}, {"entropy_coefficient": "flag"}
    for sources in (file, flag):
        found = without_bonus(Settings(Config(entropy_coefficient=0.0), sources | {"entropy_target": "file"}))
        assert (found.config.entropy_target, found.sources["entropy_target"]) == (0.0, "bonus")
        assert with_defaults(Settings(Config(entropy_coefficient=0.0), sources), Bandit()).config.entropy_target == 0.0
    for values, sources in (
        ({}, {}),
        ({"entropy_coefficient": 0.0, "entropy_coefficient_final": 0.01}, flag),
        ({"entropy_coefficient": 0.0, "entropy_target": 0.2}, flag | {"entropy_target": "file"}),
        ({"entropy_coefficient": 0.0}, flag | {"entropy_target": "flag"}),
    ):
        assert without_bonus(Settings(Config(**values), sources)) == Settings(Config(**values), sources)
    older = Settings(Config(entropy_coefficient=0.0), flag, is_resumed=True)
    assert without_bonus(older) == older


def test_a_policy_with_a_rule_plays_whole_episodes_of_about_62000_steps():
    """Where a size is named, or rollouts are to grow, nothing is chosen; groups are whole; 1,024 episodes at most."""

    def chosen(steps, sources=None, **values):
        ruled = Bandit()
        ruled.initial_logits, ruled.expected_steps = [0.0] * 4, steps
        return apply_prior_defaults(Settings(Config(**values), sources or {}), ruled).config.num_envs

    assert [chosen(steps) for steps in (62_000, 27_500, 5_000, 500_000, 10)] == [1, 2, 12, 1, 1024]
    assert chosen(62_000, algorithm="grpo") == 8
    assert chosen(62_000, num_envs=3) == 3
    assert chosen(62_000, rollout_steps=100) == 0
    assert chosen(62_000, {"grow_rollouts": "flag"}) == 0


def test_a_rollout_whose_size_nobody_named_takes_at_most_4_gib():
    """With its copy: 100,000 observations are 400 kB a step. A single trajectory, which is not copied, may have all."""

    def chosen(steps, size=100_000, **values):
        ruled = Bandit()
        ruled.initial_logits, ruled.expected_steps, ruled.observation_size = [0.0] * 4, steps, size
        found = apply_prior_defaults(Settings(Config(**values)), ruled)
        return found.config.num_envs, found.config.rollout_steps, list(found.notes[1:])

    episodes, steps, (line,) = chosen(1_000)
    assert steps == 0
    assert episodes * 1_000 * 4 * 100_000 * 2 < 2**32 < (episodes + 1) * 1_000 * 4 * 100_100 * 2
    assert f"An iteration plays {episodes} of the usual 62 episodes: each step takes 801.0 kB" in line
    episodes, steps, (line,) = chosen(500_000)
    assert episodes == 1
    assert 0.99 * 2**32 < steps * 4 * 100_000 < 2**32
    assert f"a part of an episode, {steps:,} of about 500,000 steps" in line
    assert chosen(500_000, size=10) == (1, 0, [])
    assert chosen(1_000, num_envs=7) == (7, 0, [])
    ungrown = set_up(Config(grow_rollouts=False, normalise_observations=False), _huge()).size
    assert ungrown.instances == 5  # of the usual 372 episodes of 1,000 steps
    assert ungrown.samples * 4 * 100_000 * 2 < 2**32
    assert set_up(Config(training_episodes=1000), _huge()).size.samples * 4 * 100_000 * 2 < 1.7 * 2**32


def _huge():
    huge = Bandit()
    huge.observation_size, huge.expected_steps = 100_000, 1_000
    return huge


def test_the_guides_preset_sets_sizes_that_nobody_chose(tmp_path):
    settings = with_defaults(load_settings(None, {"preset": "guide", "num_epochs": "3"}), Bandit())
    found = settings.config
    assert (found.num_envs, found.num_epochs, found.batch_size) == (1, 3, 65_536)
    assert (settings.sources["batch_size"], settings.sources["num_epochs"]) == ("preset", "flag")
    (note,) = settings.notes
    assert note == (
        "Preset guide sets sizes of learning, for comparisons of speed, not for results: NUM_ENVS 1, BATCH_SIZE 65,536."
    )
    assert with_preset(settings, ITERATION_STEPS) == settings


def test_the_guides_preset_stays_where_a_policy_starts_from_a_rule():
    """Its number of epochs and its minibatches are not those of such policies' defaults."""
    desk = load_simulator("process").simulator
    settings = with_defaults(load_settings(None, {"preset": "guide"}), desk)
    found = settings.config
    assert (found.num_epochs, found.batch_size, found.learning_rate_actor) == (10, 65_536, 1.5e-3)
    assert len(settings.notes) == 2


def test_the_large_transformer_is_planned_on_a_card():
    """100 million parameters of the actor; what it remembers is kept before every chunk, and the plan says so."""
    setup = complete(load_settings(None, {"preset": "large_transformer"}), LoadedSimulator(Bandit(), {}))
    (note,) = setup.settings.notes
    assert note.startswith(
        "Preset large_transformer sets sizes of a large policy for a GPU: POLICY_NETWORK "
        "transformer, ACTOR_HIDDEN_SIZE 1,024,"
    )
    spec = setup.spec
    assert (len(spec.actor_hidden), spec.attention_heads, block(spec, 1024)[2], spec.context) == (
        8,
        16,
        (1024, 4096),
        0,
    )
    assert 100e6 < sum((a + 1) * b for a, b in spec.matrices["actor"]) < 102e6
    plan = plan_run(setup, machine_with(next(card for card in CARDS if card.name == "H100 SXM")))
    assert (plan.device, plan.precision, plan.batch_size) == ("cuda", "bf16", 32_768)
    assert plan.microbatch == plan.batch_size
    assert "what the policy remembers" in plan.reasons["trajectory_bytes"]


def test_a_preset_leaves_the_epochs_of_a_policy_with_a_rule_and_says_so():
    setup = complete(load_settings(None, {"preset": "production"}), load_simulator("process"))
    assert (setup.config.num_epochs, setup.settings.sources["num_epochs"]) == (WITH_PRIOR["num_epochs"], "prior")
    line = "Preset production leaves NUM_EPOCHS = 1 alone, set by the rule that the policy starts from."
    assert line in setup.settings.notes
    assert setup.config.evaluate_every == 100


def test_settings_are_completed_once_in_one_order():
    """Defaults of a rule, then the preset, then the budget; what is complete stays, and a run stays as it was."""
    desk = load_simulator("process")
    flags = {"preset": "standard", "time_budget": "1h", "num_epochs": "5"}
    setup = complete(load_settings(None, flags), desk)
    names = ("batch_size", "evaluate_every", "num_epochs", "training_episodes")
    assert [setup.settings.sources[name] for name in names] == ["prior", "preset", "flag", "preset"]
    assert setup.config.training_episodes == -(-50_000_000 // setup.size.samples)
    assert complete(setup.settings, desk) == setup
    alone = complete(load_settings(None, {"time_budget": "1h"}), desk)
    assert (alone.config.training_episodes, alone.settings.sources["training_episodes"]) == (NO_LIMIT, "time_budget")
    plain = complete(replace(load_settings(None, flags), is_complete=True), desk)
    assert (plain.config.num_epochs, plain.config.batch_size, plain.settings.notes) == (5, Config().batch_size, ())


def test_a_number_of_steps_is_the_length_of_a_run_whatever_an_iteration_is():
    bandit = LoadedSimulator(Bandit(), {})

    def length(**flags):
        setup = complete(load_settings(None, flags), bandit)
        return setup.config.training_episodes, setup.settings.sources["training_episodes"]

    fixed = {"num_envs": "2", "rollout_steps": "100"}  # 200 steps an iteration
    assert length(**fixed, total_steps="1000") == (5, "total_steps")
    assert length(**fixed, total_steps="1001", preset="standard", time_budget="1h") == (6, "total_steps")
    assert length(total_steps="1000000") == (20, "total_steps"), "units of 50,000 steps, as rollouts grow"
    assert length(**fixed) == (50, "default")
    setup = complete(load_settings(None, {**fixed, "total_steps": "1000"}), bandit)
    assert "TOTAL_STEPS sets TRAINING_EPISODES = 5, about 200 steps each." in setup.settings.notes
