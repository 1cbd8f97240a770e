"""A Config becomes a run: simulator, plan, model, collector, updater, trainer, run directory."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from core.config import Config
from core.errors import UserError
from core.hardware.machine import detect_machine, free_and_total_bytes
from core.hardware.plan import Plan
from core.policy.networks import ActorCritic, initialise
from core.seeding import stream
from core.simulators.check import check_simulator
from core.simulators.gymnasium_bridge import GymnasiumSimulator
from core.simulators.loading import PROCESS, LoadedSimulator, load_simulator
from core.simulators.simulator import Simulator, function_of
from core.training.checkpoint import FACTS, load_run
from core.training.files import write_json
from core.training.metrics import MetricsLog
from core.training.notices import memory_lines
from core.training.planning import announce, apply_plan, network_sizes, plan_run, write_plan
from core.training.plots import plot_learning_curve
from core.training.presets import with_preset
from core.training.progress import Progress
from core.training.rollouts import build_collector, copies_per_update, decisions_per_update, rollout_in_words
from core.training.trainer import Trainer, TrainingSettings
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
        """Train; return whether all episodes are done (False: somebody asked to stop)."""
        trainer = self.trainer
        log = MetricsLog(self.directory, trainer.episode)
        progress = Progress(console, trainer.settings.episodes, trainer.episode, trainer.simulator.main_metric)
        with progress:
            if log.note:
                progress.say(log.note)
            try:
                done = trainer.run(log, progress, should_stop)
            finally:
                log.close()
            progress.say(plot_learning_curve(self.directory, trainer.simulator.main_metric))
            if self.plan.device == "cuda":
                free, total = free_and_total_bytes()
                for line in memory_lines(self.plan.device_name, total, free):
                    progress.say(line)
        return done


def build_run(config: Config, sources: dict[str, str], resume: bool, say: Say) -> Run:
    """Build everything, write config.json and plan.json, and say what was decided.

    Raises:
        UserError: anything about the input, the run directory or the checkpoint is not right.
    """
    loaded = load_simulator(
        config.simulator,
        config.scenario,
        config.event_log,
        config.log_columns,
        config.log_arrivals,
        config.simulator_options,
    )
    simulator = loaded.simulator
    directory = _run_directory(config, resume, loaded)
    for note in loaded.notes:
        say(note)
    if config.simulator != PROCESS and not isinstance(simulator, GymnasiumSimulator):
        for hint in check_simulator(simulator):
            say(f"Hint: {hint}")
    config, sources, notes = with_preset(config, sources, decisions_per_update(config, simulator))
    machine = detect_machine()
    plan = apply_plan(plan_run(config, simulator, machine))
    for line in [*notes, *announce(plan, machine, config)]:
        say(line)
    model = build_model(config, simulator, plan.device == "cuda")
    trainer = _trainer(config, plan, model, loaded, directory)
    if resume:
        _resume(trainer, directory, say)
    say(f"Compiled the simulator with the policy in {trainer.collector.compile(trainer.cpu_copy()):.1f} s.")
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


def _trainer(config: Config, plan: Plan, model: ActorCritic, loaded: LoadedSimulator, directory: Path) -> Trainer:
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
            execution=plan.update_execution,
        ),
    )
    settings = TrainingSettings(
        episodes=config.training_episodes,
        per_update=copies_per_update(config, simulator),
        seed=config.seed,
        gamma=config.gamma,
        discount_per=config.discount_per if function_of(simulator, "time") is not None else "decision",
        linear_schedule=config.learning_rate_schedule == "linear",
        normalise_observations=config.normalise_observations,
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
    return Trainer(simulator, model, collector, updater, settings, directory, facts)


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
    trainer.restore(tensors, facts)
    say(f"Resuming after episode {trainer.episode} of {trainer.settings.episodes}.")


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
