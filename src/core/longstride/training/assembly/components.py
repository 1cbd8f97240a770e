"""Parts of a run, built from its setup and its plan: model, collector, updater, evaluation, trainer."""

from functools import partial
from pathlib import Path

import torch

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.cpu import detect_cores
from longstride.hardware.planning.plan import Plan
from longstride.learning.device_transfer import host_allocator
from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.distributed.shares import share_of
from longstride.learning.steps.cuda_graph import CudaGraphs
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.updater import Updater
from longstride.policies.batched_forward import TorchForward
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.policies.spec_json import spec_to_json
from longstride.rollout.batched.arrays import half_batches
from longstride.rollout.batched.collector import BatchedCollector
from longstride.rollout.collector import Collector, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.seeding import stream
from longstride.simulators.described import described
from longstride.simulators.simulator import Simulator, function_of
from longstride.text import format_bytes
from longstride.training.assembly.algorithm import from_config
from longstride.training.assembly.hosts import build_hosts_collector
from longstride.training.assembly.presets import budget_lines
from longstride.training.assembly.setup import Setup
from longstride.training.evaluation.best_heuristic import Heuristics
from longstride.training.evaluation.periodic import PeriodicEvaluation, asked_evaluation, unasked_evaluation
from longstride.training.rollout_growth import GrowthLimits
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.plots import read_evaluation
from longstride.training.settings import Services, TrainingSettings
from longstride.training.time_budget import NO_LIMIT, Budget, NoBudget
from longstride.training.trainer import Trainer

_TIMED_STEPS = 2_000_000
"""Steps of a run that only time ends, as far as its evaluations are concerned."""

_LARGEST_COPY = 16 << 10
"""Bytes of a state that is copied for further outcomes."""

_FEW_EPISODES = 4
"""Episodes of each heuristic that is only played for the display of a run."""


def build_trainer(setup: Setup, plan: Plan, directory: Path, services: Services, command: str = "") -> Trainer:
    """Build the trainer of a run; nothing is written.

    The command trains this run, for messages.
    """
    config, simulator, size = setup.config, setup.simulator, setup.size
    growth = GrowthLimits(size.instances, size.first, size.samples, config.training_episodes * size.unit)
    parts = build_collector(setup, plan, services.ranks), build_updater(setup, plan, services.ranks)
    settings = from_config(
        TrainingSettings,
        config,
        iterations=NO_LIMIT if size.first else config.training_episodes,
        growth=growth if size.first else None,
        instances=size.instances,
        rollout_steps=size.steps,
        group_size=size.group_size,
        grow_horizon=config.grow_horizon and 0 < size.restart_after < simulator.max_steps,
        discount_per=config.discount_per if function_of(simulator, "time") is not None else "decision",
        schedule=setup.schedule,
        directory=directory,
        command=command,
        processes=services.ranks.host_size,
    )
    metadata = {
        "simulator": simulator.description(),
        "source": setup.source,
        "policy": spec_to_json(setup.spec),
        "update_threads": plan.update_threads,
    }
    if setup.loaded.is_users_own:
        metadata["described"] = described(simulator)  # for the modes that do not run a user's source
    if names := setup.extensions.names():
        metadata["extensions"] = names
    return Trainer(simulator, *parts, settings, metadata, services)


def build_collector(setup: Setup, plan: Plan, ranks: Ranks = ALONE) -> Collector:
    """Return the collector of a rank's instances: of whole episodes, or of rollouts of ROLLOUT_STEPS steps.

    Raises:
        UserError: the system does not even give the addresses of the trajectories' rows.
    """
    simulator, size = setup.simulator, setup.size
    share = share_of(size.instances, size.group_size, ranks.rank, ranks.size)
    rollout = RolloutPlan(
        seed=setup.config.seed,
        instances=share.count,
        steps=size.steps,
        threads=plan.simulation_threads,
        side_by_side=plan.lockstep,
        group_size=size.group_size,
        restart_after=size.restart_after,
        explorers=_explorers(setup, plan),
        draws=_draws(setup, plan),
        first=share.first,
        of=size.instances if ranks.size > 1 else 0,
    )
    new = host_allocator(plan.device == "cuda")
    kind = EpisodeCollector if not size.steps else FixedLengthCollector if simulator.compiled else GymnasiumCollector
    try:
        if plan.collect_on != "cpu":
            forward = _build_forward(setup, plan, share.count)
            return BatchedCollector(simulator, setup.spec, rollout, forward, new)
        if setup.has_players:
            return build_hosts_collector(setup, plan, rollout, new)
        return kind(simulator, setup.spec, rollout, new)
    except MemoryError as error:
        memory = size.memory
        asked = memory.pinned_bytes if plan.device == "cuda" else share.count * memory.row_bytes
        raise UserError(
            f"The system does not give the {format_bytes(asked)} that {share.count:,} "
            f"trajectories of up to {memory.rows:,} steps may take; lower max_steps of the simulator or "
            "NUM_ENVS, or set or lower ROLLOUT_STEPS."
        ) from error


def _explorers(setup: Setup, plan: Plan) -> int:
    """Return of how many instances one makes excursions from archived states; 0 where none can."""
    share = setup.config.exploring_starts
    can_begin_anywhere = setup.simulator.exploring_starts and _plays_copies(setup, plan)
    return max(round(1.0 / share), 2) if share > 0.0 and can_begin_anywhere else 0


def _draws(setup: Setup, plan: Plan) -> int:
    """Return how many further outcomes of each step are drawn at most; 0 where none can be."""
    if not (_plays_copies(setup, plan) and setup.algorithm.needs_critic):
        return 0
    return setup.config.outcome_draws if setup.simulator.state_dtype.itemsize <= _LARGEST_COPY else 0


def _plays_copies(setup: Setup, plan: Plan) -> bool:
    """Return whether training can play from copies of the simulator's states, beside what it plays anyway."""
    is_local = plan.collect_on == "cpu" and not setup.has_players
    return is_local and setup.size.restart_after > 0 and not setup.spec.family.joint_steps


def remarks(setup: Setup, plan: Plan, budget: Budget | NoBudget) -> list[str]:
    """Return the lines about a time budget, and about settings that the user has chosen and this run cannot use."""
    return [*_unused_settings(setup, plan), *budget_lines(setup.settings, budget)]


def _unused_settings(setup: Setup, plan: Plan) -> list[str]:
    """Return a line about the settings of exploration that the user has chosen and this run cannot use."""
    parts = {
        "exploring_starts": _explorers(setup, plan),
        "outcome_draws": _draws(setup, plan),
        "entropy_target": bool(setup.spec.action_space.choices),
    }
    config, settings = setup.config, setup.settings
    names = [n.upper() for n, part in parts.items() if not part and getattr(config, n) and settings.is_chosen(n)]
    if not names:
        return []
    verb = "has" if len(names) == 1 else "have"
    return [f"{', '.join(names)} {verb} no effect in this run; docs/explanation/defaults.md says where."]


def _build_forward(setup: Setup, plan: Plan, instances: int) -> TorchForward:
    """Return the policy's forward pass for half-batches, on a GPU captured."""
    device = torch.device("cuda" if plan.collect_on == "gpu" else "cpu")
    new_graphs = partial(CudaGraphs, device) if plan.collect_on == "gpu" else None
    return TorchForward(setup.spec, *half_batches(instances), device, new_graphs, plan.policy_states == "bf16")


def build_updater(setup: Setup, plan: Plan, ranks: Ranks = ALONE) -> Updater:
    """Build the updater with a freshly initialised model, the same on all ranks."""
    config, steps = setup.config, _run_steps(setup, plan)
    model = new_model(config, setup.simulator, setup.spec, plan.device == "cuda")
    settings = from_config(
        UpdateSettings,
        config,
        epochs=config.num_epochs,
        batch_size=plan.batch_size,
        microbatch=plan.microbatch,
        precision=plan.precision,
        threads=plan.update_threads if plan.device == "cpu" else 1,
        executions=plan.executions,
        run_steps=steps,
        measure_noise=0 < setup.size.first < setup.size.samples,
        checkpointing=plan.gradient_checkpointing,
    )
    return Updater(model, torch.device(plan.device), setup.algorithm, settings, ranks)


def _run_steps(setup: Setup, plan: Plan) -> int:
    """Return about how many optimiser steps a run has; 0 where a time budget alone ends it."""
    config, size = setup.config, setup.size
    if config.training_episodes == NO_LIMIT:
        return 0
    iterations = -(-config.training_episodes * size.counted // size.samples)
    return iterations * -(-size.samples // plan.batch_size) * config.num_epochs


def new_model(config: Config, simulator: Simulator, spec: PolicySpec, pinned: bool = False) -> ActorCritic:
    """Return a freshly initialised model on the host."""
    generator = torch.Generator().manual_seed(int(stream(config.seed, "weights").integers(2**63)))
    rules = spec.family.rules_of(simulator)
    logits, feature_weights = (None if rule is None else torch.tensor(rule, dtype=torch.float32) for rule in rules)
    model = ActorCritic(spec, pinned=pinned)
    initialise(model, config.weight_init, generator, logits, config.initial_log_std, feature_weights)
    return model


def build_comparisons(setup: Setup, directory: RunDirectory) -> tuple[PeriodicEvaluation | None, Heuristics | None]:
    """Return the evaluations of a run, and the heuristics that it is compared with; None where there are none.

    Evaluations are made without a setting if they cost little: if the simulator wants whole episodes, or if rollouts
    grow and the simulator is compiled. There are no heuristics where the clock decides how much is learned.
    """
    config, simulator, size = setup.config, setup.simulator, setup.size
    threads, asked, evaluation = config.simulation_threads or detect_cores().usable, config.evaluate_every > 0, None
    played = config.seed, threads, config.episode_time_limit
    if asked:
        every, episodes = config.evaluate_every, config.evaluation_episodes
        evaluation = asked_evaluation(simulator, setup.spec, every, episodes, *played)
    elif config.evaluate_every and simulator.compiled and (size.first or simulator.hooks.whole_episodes):
        timed = config.training_episodes == NO_LIMIT
        total = _TIMED_STEPS if timed else config.training_episodes * size.counted
        evaluation = unasked_evaluation(simulator, setup.spec, total, *played)
    if config.time_budget:
        return evaluation, None
    episodes = config.evaluation_episodes if asked else min(_FEW_EPISODES, config.evaluation_episodes)
    return evaluation, Heuristics(setup.simulator, episodes, config.seed, threads, read_evaluation(directory))
