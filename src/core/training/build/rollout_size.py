"""How long a training episode plays, how many copies, and what plays them."""

from core.config import Config
from core.errors import UserError
from core.hardware.planning.host_memory import in_megabytes
from core.hardware.planning.plan import Plan
from core.hardware.types import HostRollout
from core.learning.device_transfer import host_allocator
from core.policies.spec import PolicySpec
from core.rollout.collector import Collector, RolloutPlan
from core.rollout.episode_collector import EpisodeCollector
from core.rollout.fixed_length_collector import FixedLengthCollector
from core.rollout.gymnasium_collector import GymnasiumCollector
from core.rollout.trajectory import trajectory_bytes
from core.simulators.gym.adapter import ROLLOUT_STEPS as GYMNASIUM_ROLLOUT_STEPS
from core.simulators.gym.adapter import GymnasiumSimulator
from core.simulators.simulator import Simulator

_DECISIONS_PER_UPDATE, _MOST_COPIES = 372_000, 1024


def rollout_steps(config: Config, simulator: Simulator) -> int:
    """Return the decisions that each copy plays in a rollout, 0 for a whole episode."""
    return config.rollout_steps or (GYMNASIUM_ROLLOUT_STEPS if isinstance(simulator, GymnasiumSimulator) else 0)


def expected_samples(simulator: Simulator) -> int:
    """Return the number of decisions of a nominal episode."""
    sizes = getattr(simulator, "sizes", None)
    return round(sizes.expected_tasks) if sizes is not None else simulator.max_steps


def copies_per_update(config: Config, simulator: Simulator) -> int:
    """Return how many copies of the episode a round plays.

    The user's number; else one where ROLLOUT_STEPS says how long it plays, or as many whole episodes as make a rollout
    of usual size.
    """
    if config.episodes_per_update or rollout_steps(config, simulator):
        return config.episodes_per_update or 1
    return min(max(round(_DECISIONS_PER_UPDATE / expected_samples(simulator)), 1), _MOST_COPIES)


def decisions_per_update(config: Config, simulator: Simulator) -> int:
    """Return about how many samples a rollout has."""
    return (rollout_steps(config, simulator) or expected_samples(simulator)) * copies_per_update(config, simulator)


def host_rollout(config: Config, simulator: Simulator) -> HostRollout:
    """Return the bytes of the arrays that :func:`build_collector` has allocated, by row and in all."""
    steps, copies = rollout_steps(config, simulator), copies_per_update(config, simulator)
    sizes = simulator.observation_size, simulator.action_space, simulator.action_feature_size
    decisions, rows = steps or expected_samples(simulator), steps or simulator.max_steps
    return HostRollout(
        copies=copies,
        decisions=decisions,
        rows=rows,
        at_most=not steps and getattr(simulator, "sizes", None) is None,
        bytes=copies * trajectory_bytes(decisions, *sizes),
        pinned_bytes=copies * trajectory_bytes(rows, *sizes, cuts=steps),
    )


def rollout_in_words(config: Config, simulator: Simulator) -> str:
    """Say how long a copy plays in a training episode."""
    if steps := rollout_steps(config, simulator):
        return f"{steps:,} decisions a rollout"
    return f"about {expected_samples(simulator):,} decisions an episode"


def build_collector(config: Config, plan: Plan, spec: PolicySpec, simulator: Simulator) -> Collector:
    """Return what plays: whole episodes, or rollouts of ROLLOUT_STEPS decisions.

    Raises:
        UserError: the system does not even give the addresses of the rows of its trajectories.
    """
    try:
        return _collector(config, plan, spec, simulator)
    except MemoryError as error:
        rollout = host_rollout(config, simulator)
        raise UserError(
            f"The system does not give the {in_megabytes(rollout.pinned_bytes)} that {rollout.copies:,} trajectories "
            f"of up to {rollout.rows:,} decisions may take; lower max_steps of the simulator or EPISODES_PER_UPDATE, "
            "or set or lower ROLLOUT_STEPS."
        ) from error


def _collector(config: Config, plan: Plan, spec: PolicySpec, simulator: Simulator) -> Collector:
    instances, steps = copies_per_update(config, simulator), rollout_steps(config, simulator)
    rollout = RolloutPlan(config.seed, instances, steps, plan.simulation_threads, plan.lockstep)
    new = host_allocator(plan.device == "cuda")
    if isinstance(simulator, GymnasiumSimulator):
        return GymnasiumCollector(simulator, spec, rollout, new)
    kind = FixedLengthCollector if steps else EpisodeCollector
    return kind(simulator, spec, rollout, new)
