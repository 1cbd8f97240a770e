"""The parts of a run, each made from plain arguments that a Config and a plan give: model, trainer, schedule."""

from pathlib import Path

import torch

from core.config import Config
from core.hardware.detect import usable_cores
from core.hardware.planning.plan import Plan
from core.learning.schedule import Coefficients, Schedule
from core.learning.steps.interface import StepSettings
from core.learning.updater import Updater, UpdateSettings
from core.policies.networks import ActorCritic, initialise
from core.seeding import stream
from core.simulators.loading import LoadedSimulator
from core.simulators.simulator import Simulator, function_of
from core.training.build.plan import policy_spec
from core.training.build.rollout_size import build_collector, copies_per_update
from core.training.display.utilization import UtilizationTracker
from core.training.evaluation.periodic import PeriodicEvaluation, greedy_player
from core.training.run_directory.checkpoint_writer import CheckpointWriter, WriteRetry
from core.training.time_budget import Budget
from core.training.trainer import Trainer, TrainingSettings


def build_model(config: Config, simulator: Simulator, pinned: bool) -> ActorCritic:
    """Build a freshly initialised model on the host."""
    model = ActorCritic(policy_spec(config, simulator), pinned=pinned)
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
    instruments: UtilizationTracker | None = None,
    saving: WriteRetry | None = None,
) -> Trainer:
    """Build the trainer of a run; nothing is written."""
    simulator = loaded.simulator
    collector = build_collector(config, plan, model.spec, simulator)
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
            executions=plan.executions,
            checkpointing=plan.gradient_checkpointing,
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
        episode_time_limit=config.episode_time_limit,
    )
    facts = {
        "simulator": simulator.description(),
        "source": loaded.source,
        "policy": model.spec.to_json(),
        "update_threads": plan.update_threads,
    }
    evaluation = build_evaluation(config, model, simulator)
    checkpoints = CheckpointWriter(directory, config.checkpoints_kept, saving)
    parts = (simulator, model, collector, updater, settings, directory, facts, budget, instruments, evaluation)
    return Trainer(*parts, checkpoints)


def build_evaluation(config: Config, model: ActorCritic, simulator: Simulator) -> PeriodicEvaluation | None:
    """Return what evaluates the policy while the run goes on; None where nobody asked for it."""
    if not config.evaluate_every:
        return None
    how = config.evaluation_episodes, config.seed, config.simulation_threads or usable_cores()
    play = greedy_player(simulator, model.spec, *how)
    return PeriodicEvaluation(config.evaluate_every, config.training_episodes, play)


def schedule_of(config: Config) -> Schedule:
    """Return how the coefficients of the update change."""
    start = Coefficients(1.0, config.ppo_clip_param, config.value_clip_range, config.entropy_coefficient)
    rate = 0.0 if config.learning_rate_schedule == "linear" else 1.0
    clip = 0.0 if config.clip_range_schedule == "linear" else 1.0
    final = config.entropy_coefficient_final if config.entropy_schedule == "linear" else start.entropy_coefficient
    return Schedule(start, Coefficients(rate, clip * start.clip_range, clip * start.value_clip_range, final))
