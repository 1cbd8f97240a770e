"""What follows from the values of settings and a simulator on any machine: the policy and the size of a rollout."""

from dataclasses import dataclass, field, replace
from typing import Any

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.types import HostRollout
from longstride.policies.families.families import FAMILIES
from longstride.policies.make_spec import spec_for
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import pinned_bytes, trajectory_bytes
from longstride.simulators.simulator import Simulator
from longstride.text import format_bytes
from longstride.training.rollout_growth import LARGEST_SHARE

_USUAL_SAMPLES, _MOST_INSTANCES = 372_000, 1024

_STEPS_WITH_PRIOR = 62_000
"""Environment steps of a rollout where the policy starts from a rule, in whole episodes: at least one."""

_LARGEST_ROLLOUT = 4 << 30
"""Bytes that a rollout and its copy for the update take at most unless a user names its size. The same on all machines,
so that the same settings learn the same everywhere."""

_FIRST_STEPS, _LEAST_FIRST, _SHORT = 8_192, 1_024, 80
"""Steps of the first rollout where rollouts grow. A run of fewer than 80 such rollouts begins with less, to learn more
often: with its share of the run, but not with less than the second number."""

_STREAMS, _ENVIRONMENTS = 32, 8
"""Instances, or Gymnasium environments, that rollouts come from where they grow."""

_FEWEST_GROUPS, _FEWEST_STEPS = 4, 64
"""Groups whose gradients show the noise, and steps of an instance in the first rollout."""

_SHORTEST_EPISODE, _SHORTEST_IN_PYTHON = 50_000, 10_000
"""Steps that a training episode counts for at least, where rollouts grow; those of a Gymnasium environment."""

_RESTART_HORIZONS = 10
"""Horizons after which an instance begins another episode, where rollouts grow. Long episodes remember the first, bad
policies: queues that grew under them stay, and most of what is learned is about states that a good policy never sees.
"""

_ENVIRONMENT_STEPS = 2_048
"""Steps of a Gymnasium environment's rollout of a fixed size: its episodes are short, and of no known length."""


_LIMIT = 4.0
"""Standard deviations to which an actor clips normalised observations where rollouts grow. Beyond what training has
seen, outputs of a network go on along a straight line. With a limit of 10, policies of queues ran away from lengths
that they had hardly seen. The critic keeps it: it has to see how much longer a long queue becomes."""


@dataclass(frozen=True)
class RolloutSize:
    """Size of an iteration's rollout, as far as it is known before.

    Steps are those of each instance, 0 where each plays a whole episode. Where rollouts may grow they are the most, and
    ``first`` is the size of the first rollout, all instances together; else it is 0. The reason, a phrase, is for the
    number of instances; the memory is that of the trajectories on the host. Instances of a group
    share random streams. After ``restart_after`` steps an instance gives up its episode, 0 for never.
    """

    instances: int
    steps: int
    expected_steps: int
    reason: str
    first: int = 0
    unit: int = 0
    group_size: int = 1
    restart_after: int = 0
    memory: HostRollout = field(default_factory=HostRollout)

    @property
    def samples(self) -> int:
        """Expected number of samples, at most where rollouts grow."""
        return self.instances * self.expected_steps

    @property
    def counted(self) -> int:
        """Steps that TRAINING_EPISODES counts: those of an iteration or, where rollouts grow, of an episode."""
        return self.unit or self.samples

    @property
    def in_words(self) -> str:
        """Length of a rollout, or of an episode where whole ones are collected."""
        if 0 < self.first < self.samples:
            return f"{self.first:,} to {self.samples:,} steps an iteration, depending on the gradient noise"
        return (
            f"{self.samples:,} steps an iteration" if self.steps else f"about {self.expected_steps:,} steps an episode"
        )


def most_samples(spec: PolicySpec) -> int:
    """Return the most environment steps of a rollout whose size no user named, by the memory that they take."""
    bytes_of_a_step = -(-trajectory_bytes(spec, 1_000) // 1_000)
    return max(_LARGEST_ROLLOUT // (2 * bytes_of_a_step), _FEWEST_STEPS)


def policy_spec(config: Config, simulator: Simulator) -> PolicySpec:
    """Return the spec of the policy that settings ask for."""
    widths = config.actor_hidden_size, config.critic_hidden_size
    actor, critic = ((width,) * config.num_hidden_layers for width in widths)
    family = FAMILIES[config.policy_network]
    settings = {name: getattr(config, name) for name in family.settings}
    spec = spec_for(simulator, actor, critic, config.activation, family, settings)
    is_narrow = config.normalise_observations and grows(config, simulator)
    return replace(spec, observation_limit=_LIMIT) if is_narrow else spec


def rollout_size(config: Config, simulator: Simulator, spec: PolicySpec, group: int) -> RolloutSize:
    """Return the size of the rollouts that a simulator is trained on.

    The number of instances is the user's; without one it is 1 for rollouts of ROLLOUT_STEPS steps, and otherwise as
    many whole episodes as make a rollout of the usual size. Instances come in groups of ``group``, which share streams.
    """
    require_groups(config, simulator, group)
    known = config, simulator, min(_USUAL_SAMPLES, most_samples(spec)), group
    size = _growing_size(*known) if grows(config, simulator) else _fixed_size(*known)
    return replace(size, memory=_memory(spec, size, simulator, config.rollout_lag))


def _fixed_size(config: Config, simulator: Simulator, usual: int, group: int) -> RolloutSize:
    """Return the size of rollouts of ROLLOUT_STEPS steps or of whole episodes, by default of the usual samples."""
    steps = config.rollout_steps or simulator.default_rollout_steps or (0 if simulator.compiled else _ENVIRONMENT_STEPS)
    expected = steps or simulator.expected_steps or simulator.max_steps
    if config.num_envs:
        instances, reason = config.num_envs, f"NUM_ENVS is {config.num_envs}"
    elif steps:
        instances, reason = 1, f"{steps:,} steps an iteration"
    else:
        instances = min(max(round(usual / expected), 1), _MOST_INSTANCES)
        reason = f"{instances * expected:,} steps an iteration, about {expected:,} each"
    return RolloutSize(whole_groups(instances, group), steps, expected, reason, group_size=group)


def sizes_with_prior(config: Config, simulator: Simulator, group: int) -> tuple[dict[str, Any], list[str]]:
    """Return the size of rollouts where the policy starts from a rule, and a line if memory makes them smaller."""
    episode, spec = simulator.expected_steps or simulator.max_steps, policy_spec(config, simulator)
    most, usual = most_samples(spec), round(_STEPS_WITH_PRIOR / episode)
    episodes = min(max(usual, 1), _MOST_INSTANCES)
    fitting = min(episodes, max(most // episode, 1))
    sizes = {"num_envs": whole_groups(fitting, group)}
    if episode > 2 * most and group == 1:  # a single trajectory is not copied for the update
        sizes["rollout_steps"] = 2 * most
        reason = f"a part of an episode, {2 * most:,} of about {episode:,} steps"
    elif fitting < episodes:
        reason = f"{fitting} of the usual {episodes} episodes"
    else:
        return sizes, []
    each = format_bytes(_LARGEST_ROLLOUT // most)
    return sizes, [
        f"An iteration plays {reason}: each step takes {each} with its copy for the update "
        "(set NUM_ENVS or ROLLOUT_STEPS for another size)."
    ]


def names_a_size(config: Config, simulator: Simulator) -> bool:
    """Return whether the user or the simulator named the size of a rollout."""
    return bool(config.num_envs or config.rollout_steps or simulator.default_rollout_steps)


def grows(config: Config, simulator: Simulator) -> bool:
    """Return whether rollouts grow with the noise: neither the user nor the simulator named a size."""
    return config.grow_rollouts and not names_a_size(config, simulator)


def require_groups(config: Config, simulator: Simulator, group_size: int) -> None:
    """Check that the instances of a run can be grouped where its algorithm compares groups of more than one.

    Raises:
        UserError: they cannot.
    """
    family = FAMILIES[config.policy_network]
    if family.joint_steps and config.kl_coefficient > 0.0:
        raise UserError(
            f"POLICY_NETWORK is '{family.name}', which {family.joint_steps}, but KL_COEFFICIENT compares single "
            "decisions with the first policy; set it to 0."
        )
    if group_size == 1:
        return
    name = config.algorithm
    if not simulator.compiled:
        raise UserError(
            f"ALGORITHM = '{name}' gives the episodes of a group the same random streams, which a Gymnasium "
            "environment does not let be set; use ALGORITHM = 'ppo', or write the simulator for Longstride."
        )
    if config.num_envs % config.group_size:
        raise UserError(
            f"NUM_ENVS is {config.num_envs}, which is not a multiple of GROUP_SIZE "
            f"{config.group_size}; change one of them."
        )


def whole_groups(instances: int, group_size: int) -> int:
    """Return the number of instances, rounded up to whole groups."""
    return -(-instances // group_size) * group_size


def _growing_size(config: Config, simulator: Simulator, usual: int, group_size: int) -> RolloutSize:
    """Return the size of rollouts that grow to the usual number of samples, or to what the whole run allows."""
    streams, least = (_STREAMS, _SHORTEST_EPISODE) if simulator.compiled else (_ENVIRONMENTS, _SHORTEST_IN_PYTHON)
    instances = max(whole_groups(streams, group_size), _FEWEST_GROUPS * group_size if group_size > 1 else 1)
    unit = max(simulator.expected_steps or simulator.max_steps, least) if simulator.compiled else least
    share = config.training_episodes * unit // LARGEST_SHARE
    is_short = config.training_episodes * unit < _SHORT * _FIRST_STEPS
    wanted = min(max(share, _LEAST_FIRST), _FIRST_STEPS) if is_short else _FIRST_STEPS
    first = max(wanted // instances, _FEWEST_STEPS) * instances
    steps = max(min(usual, share), first) // instances
    reason = "parts of an episode each, as rollouts grow"
    restart = round(_RESTART_HORIZONS * config.horizon) if simulator.compiled and group_size == 1 else 0
    return RolloutSize(instances, steps, steps, reason, first, unit, group_size, restart)


def _memory(spec: PolicySpec, size: RolloutSize, simulator: Simulator, lag: int) -> HostRollout:
    """Return the host memory of trajectories: twice as much where the next ones are played meanwhile (``lag``)."""
    instances, steps, expected = size.instances, size.steps, size.expected_steps
    rows, times = steps or simulator.max_steps, 1 + lag
    pinned = instances * pinned_bytes(spec, rows, steps) if steps else pinned_bytes(spec, rows, 0, instances)
    instances *= times
    return HostRollout(
        copies=instances,
        decisions=expected,
        rows=rows,
        row_bytes=trajectory_bytes(spec, rows, cuts=steps),
        at_most=not steps and simulator.expected_steps is None,
        bytes=instances * trajectory_bytes(spec, expected),
        state_bytes=4 * instances * spec.kept_states(expected) * spec.state_size,
        pinned_bytes=times * pinned,
    )
