"""A Config becomes a run: simulator, plan, model, collector, updater, trainer, run directory."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from core.config import Config
from core.errors import UserError
from core.hardware.machine import detect_machine, free_and_total_bytes
from core.hardware.plan import Plan
from core.kernels.cache import TALLY
from core.policy.networks import ActorCritic, initialise
from core.seeding import stream
from core.simulators.check import check_simulator
from core.simulators.gymnasium_bridge import GymnasiumSimulator
from core.simulators.loading import PROCESS, LoadedSimulator, load_simulator
from core.simulators.simulator import Simulator, function_of
from core.training.budget import NO_LIMIT, Budget, budget_of, with_budget
from core.training.checkpoint import FACTS, load_run
from core.training.files import write_json
from core.training.instruments import Instruments, build_instruments
from core.training.metrics import MetricsLog
from core.training.notices import kernel_lines, memory_lines
from core.training.planning import announce, apply_plan, network_sizes, plan_run, write_plan
from core.training.plots import plot_learning_curve
from core.training.presets import with_preset
from core.training.progress import Progress
from core.training.rollouts import build_collector, copies_per_update, decisions_per_update, rollout_in_words
from core.training.trainer import Trainer, TrainingSettings
from core.update.schedule import Coefficients, Schedule
from core.update.step import StepSettings
from core.update.updater import Updater, UpdateSettings

Say = Callable[[str], None]


@dataclass
class Run:
    """A run that is ready to train.

    Attributes:
        directory: of the run.
        trainer: of the run.
        plan: how it uses the machine.
    """

    directory: Path
    trainer: Trainer
    plan: Plan

    def train(self, console: Console, should_stop: Callable[[], bool]) -> bool:
        """Train; return whether episodes or time budget are done (False: somebody asked to stop)."""
        trainer = self.trainer
        log = MetricsLog(self.directory, trainer.episode)
        episodes = trainer.settings.episodes if trainer.settings.episodes != NO_LIMIT else None
        progress = Progress(console, episodes, trainer.episode, trainer.simulator.main_metric)
        with progress:
            if log.note:
                progress.say(log.note)
            try:
                with trainer.instruments.monitor:
                    done = trainer.run(log, progress, should_stop)
            finally:
                log.close()
            progress.say(plot_learning_curve(self.directory, trainer.simulator.main_metric))
            if self.plan.device == "cuda":
                free, total = free_and_total_bytes()
                lines = memory_lines(self.plan.device_name, total, free)
                for line in [*lines, *trainer.instruments.phase_lines()]:
                    progress.say(line)
            if line := trainer.instruments.efficiency_line():
                progress.say(line)
        return done


def build_run(config: Config, sources: dict[str, str], resume: bool, say: Say) -> Run:
    """Build everything, write config.json and plan.json, and say what was decided.

    Raises:
        UserError: anything about the input, the run directory or the checkpoint is not right.
    """
    budget = budget_of(config)  # the time of loading and compiling is part of it
    loaded = load_configured(config)
    simulator = loaded.simulator
    directory = _run_directory(config, resume, loaded)
    for note in loaded.notes:
        say(note)
    if config.simulator != PROCESS and not isinstance(simulator, GymnasiumSimulator):
        for hint in check_simulator(simulator):
            say(f"Hint: {hint}")
    config, sources, notes = with_preset(config, sources, decisions_per_update(config, simulator))
    config, sources, more = with_budget(config, sources)
    machine = detect_machine()
    plan = apply_plan(plan_run(config, simulator, machine))
    for line in [*notes, *more, *announce(plan, machine, config)]:
        say(line)
    model = build_model(config, simulator, plan.device == "cuda")
    trainer = build_trainer(config, plan, model, loaded, directory, budget, build_instruments(plan, machine))
    if resume:
        _resume(trainer, directory, say)
    seconds = trainer.collector.compile(trainer.cpu_copy()) + trainer.updater.compile()
    for line in kernel_lines(seconds, TALLY):
        say(line)
    write_json(directory / "config.json", {"values": config.model_dump(), "sources": sources})
    write_plan(directory, plan, machine)
    if loaded.scenario is not None:
        write_json(directory / "scenario.json", loaded.source["scenario"])
    if loaded.log is not None:
        _report_fidelity(loaded, directory, config.seed, say)
    say(
        f"Run directory: {directory}. Simulator: {simulator.observation_size} observations, "
        f"{simulator.action_space.in_words}, {rollout_in_words(config, simulator)}."
    )
    return Run(directory, trainer, plan)


def load_configured(config: Config) -> LoadedSimulator:
    """Load the simulator that a Config names.

    Raises:
        UserError: there is none, or it cannot be built.
    """
    return load_simulator(
        config.simulator,
        config.scenario,
        config.event_log,
        config.log_columns,
        config.log_arrivals,
        config.simulator_options,
    )


def build_model(config: Config, simulator: Simulator, pinned: bool) -> ActorCritic:
    """Build a freshly initialised model on the host."""
    actor, critic = network_sizes(config, simulator)
    space, features = simulator.action_space, simulator.action_feature_size
    model = ActorCritic(actor, critic, config.activation, pinned=pinned, space=space, action_features=features)
    generator = torch.Generator().manual_seed(int(stream(config.seed, "weights").integers(2**63)))
    logits, weights = (
        None if prior is None else torch.tensor(prior, dtype=torch.float32)
        for prior in (simulator.initial_logits, simulator.initial_feature_weights)
    )
    initialise(model, config.weight_init, generator, logits, config.initial_log_std, weights)
    return model


def build_trainer(
    config: Config,
    plan: Plan,
    model: ActorCritic,
    loaded: LoadedSimulator,
    directory: Path,
    budget: Budget | None,
    instruments: Instruments | None = None,
) -> Trainer:
    """Build the trainer of a run; nothing is written."""
    simulator = loaded.simulator
    collector = build_collector(config, plan, model.actor_sizes, simulator)
    updater = Updater(
        model,
        torch.device(plan.device),
        UpdateSettings(
            epochs=config.num_epochs,
            batch_size=plan.batch_size,
            gae_lambda=config.gae_lambda,
            value_lambda=config.value_lambda,
            target_kl=config.target_kl,
            learning_rate_actor=config.learning_rate_actor,
            learning_rate_critic=config.learning_rate_critic,
            epsilon_actor=config.adam_epsilon_actor,
        ),
        StepSettings(
            clip_range=config.ppo_clip_param,
            entropy_coefficient=config.entropy_coefficient,
            value_coefficient=config.value_coefficient,
            max_grad_norm=config.max_grad_norm,
            microbatch=plan.microbatch,
            precision=plan.precision,
            threads=plan.update_threads if plan.device == "cpu" else 1,
            value_clip_range=config.value_clip_range,
            execution=plan.update_execution,
        ),
    )
    settings = TrainingSettings(
        episodes=config.training_episodes,
        per_update=copies_per_update(config, simulator),
        seed=config.seed,
        gamma=config.gamma,
        discount_per=config.discount_per if function_of(simulator, "time") is not None else "decision",
        schedule=schedule_of(config),
        normalise_observations=config.normalise_observations,
        normalise_rewards=config.normalise_rewards,
    )
    facts = {
        "simulator": simulator.description(),
        "source": loaded.source,
        "actor_sizes": list(model.actor_sizes),
        "critic_sizes": list(model.critic_sizes),
        "action_features": model.action_features,
        "activation": config.activation,
        "update_threads": plan.update_threads,
    }
    return Trainer(simulator, model, collector, updater, settings, directory, facts, budget, instruments)


def schedule_of(config: Config) -> Schedule:
    """Return how the coefficients of the update change."""
    start = Coefficients(1.0, config.ppo_clip_param, config.value_clip_range, config.entropy_coefficient)
    rate = 0.0 if config.learning_rate_schedule == "linear" else 1.0
    clip = 0.0 if config.clip_range_schedule == "linear" else 1.0
    final = config.entropy_coefficient_final if config.entropy_schedule == "linear" else start.entropy_coefficient
    return Schedule(start, Coefficients(rate, clip * start.clip_range, clip * start.value_clip_range, final))


def _run_directory(config: Config, resume: bool, loaded: LoadedSimulator) -> Path:
    """Return the directory of the run.

    Raises:
        UserError: it already holds a run and this is no resume, or the other way round.
    """
    directory = Path(config.run_directory)
    if not config.run_directory:
        if resume:
            raise UserError("--resume needs --run-directory DIR, the run to go on with.")
        base = loaded.scenario.name if loaded.scenario else loaded.source["simulator"].rpartition(":")[2].lower()
        base = base.replace("/", "-")
        names = [base, *(f"{base}-{i}" for i in range(2, 10_000))]
        directory = next(path for path in (Path("runs") / name for name in names) if not path.exists())
    if (directory / "checkpoints" / "last" / FACTS).exists() and not resume:
        raise UserError(
            f"{directory} already holds a run; add --resume to go on with it, or name another --run-directory."
        )
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file; --run-directory needs a folder.")
    return directory


def _resume(trainer: Trainer, directory: Path, say: Say) -> None:
    tensors, facts = load_run(directory)
    if facts["simulator"] != json.loads(json.dumps(trainer.facts["simulator"])):
        differing = [k for k, v in trainer.facts["simulator"].items() if facts["simulator"].get(k) != v]
        raise UserError(
            f"The checkpoint in {directory} was trained on another simulator (different: {', '.join(differing)}); "
            "resume with the scenario or log that the run began with."
        )
    before, now = (of["source"].get("options", {}) for of in (facts, trainer.facts))
    if before != now:
        raise UserError(
            f"The run in {directory} began with the simulator options {json.dumps(before)}, not {json.dumps(now)}; "
            "resume with those that it began with."
        )
    _refuse_other_copies(trainer, facts, directory)
    trainer.restore(tensors, facts)
    say(f"Resuming after episode {trainer.episode}{of_how_many(trainer)}.")


def of_how_many(trainer: Trainer) -> str:
    """Return how many training episodes the run has, for people; nothing where only time ends it."""
    return f" of {trainer.settings.episodes}" if trainer.settings.episodes != NO_LIMIT else ""


def _refuse_other_copies(trainer: Trainer, facts: dict[str, Any], directory: Path) -> None:
    """Refuse a resume that would drop the unfinished episodes of some copies or begin others."""
    before, now = len(facts.get("rollout", [])), len(trainer.collector.unfinished().facts)
    if before and now and before != now:
        raise UserError(
            f"The run in {directory} plays {before} copies, each in an episode that goes on, not {now}; resume with "
            f"EPISODES_PER_UPDATE = {before}."
        )
    if bool(before) != bool(now):
        played = "rollouts of ROLLOUT_STEPS decisions" if before else "whole episodes (ROLLOUT_STEPS = 0)"
        raise UserError(f"The run in {directory} plays {played}; resume with the ROLLOUT_STEPS of its config.json.")


def _report_fidelity(loaded: LoadedSimulator, directory: Path, seed: int, say: Say) -> None:
    from core.training.fidelity import fidelity_report, render_markdown

    assert loaded.scenario is not None
    say("Comparing log and simulation under the logged allocation habits ...")
    report = fidelity_report(loaded.log, loaded.scenario, seed=seed)
    write_json(directory / "fidelity.json", report.as_dict())
    (directory / "fidelity.md").write_text(render_markdown(report), encoding="utf-8")
    for sentence in report.sentences:
        say(sentence)
    say(f"The mined scenario is {directory / 'scenario.json'}, the comparison {directory / 'fidelity.md'}.")
