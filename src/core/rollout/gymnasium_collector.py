"""Rollouts of Gymnasium environments: a Python loop around one compiled call of the policy a decision."""

import time

import numpy as np

from core.policies.spec import PolicySpec
from core.rollout.episode_collector import CollectorState, Outcome, Rollout
from core.rollout.fixed_length_collector import fill
from core.rollout.single_step_policy import PolicySlot, build_step_policy
from core.rollout.trajectory import Allocate, allocate, allocate_plain
from core.seeding import stream
from core.simulators.gym.open_environment import OpenEnvironment, seed_of
from core.simulators.simulator import OK, Simulator


class _Instance:
    """An environment and the episode that it is in.

    Attributes:
        environment: being played.
        trajectory: of the rollout.
        number: of the episode in this copy; -1 before the first.
        total: sum of its rewards.
        over: whether it has ended, so that another one has to begin.
        rng: of the environment's seed, then of the policy: one generator, put into the state of each episode's stream.
    """

    def __init__(self, simulator: Simulator, steps: int, new: Allocate) -> None:
        space = simulator.action_space
        self.environment = OpenEnvironment(simulator)
        self.trajectory = allocate(steps, simulator.observation_size, space, 0, new, steps)
        self.trajectory.elapsed[:] = self.trajectory.luck[:] = 0.0
        self.number, self.total, self.over = -1, 0.0, True
        self.rng = np.random.Generator(np.random.PCG64(0))


class GymnasiumCollector:
    """Collects rollouts of a number of decisions from environments that are stepped one after another.

    The stream of an episode is named by its copy and its number in the copy.

    Args:
        simulator: the environment.
        spec: architecture of the policy.
        seed: the run's seed.
        parallel: copies.
        steps: decisions of a rollout, each copy.
        new: allocator of trajectory arrays.
    """

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        seed: int,
        parallel: int,
        steps: int,
        new: Allocate | None = None,
    ) -> None:
        self.simulator, self.seed, self.steps = simulator, seed, steps
        self._acting = build_step_policy(spec)
        self._copies = [_Instance(simulator, steps, new or allocate_plain) for _ in range(parallel)]

    def collect(self, actor_params: np.ndarray, first_episode: int, count: int) -> tuple[list[Rollout], float]:
        """Play a rollout with each environment.

        Args:
            actor_params: float32[*], parameters of the actor.
            first_episode: not used: each copy counts its own episodes.
            count: number of copies that play.

        Returns:
            The rollouts and the seconds that playing them took.

        Raises:
            SimulatorError: an environment failed or returned what it should not; episode and step are named.
        """
        begin = time.perf_counter()
        played = [self._play(index, actor_params) for index in range(count)]
        return played, time.perf_counter() - begin

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the policy without moving an environment; return the seconds it took."""
        begin = time.perf_counter()
        copy = self._copies[0]
        copy.trajectory.observations[0], copy.trajectory.masks[0] = 0.0, True
        self._acting.sample(self._acting.new_seat(actor_params, copy.rng, copy.trajectory).handle, 0)
        return time.perf_counter() - begin

    def compile_ahead(self) -> None:
        """Do nothing: environments are Python."""

    def unfinished(self) -> CollectorState:
        """Return the number of each copy's episode; the state of an environment cannot be saved."""
        return CollectorState({}, [{"number": copy.number} for copy in self._copies])

    def restore(self, unfinished: CollectorState) -> None:
        """Go on with the episodes after those; none is played twice, and the unfinished ones are given up."""
        for copy, facts in zip(self._copies, unfinished.facts, strict=False):
            copy.number = facts["number"]

    def _play(self, index: int, actor_params: np.ndarray) -> Rollout:
        """Fill the trajectory of a copy."""
        copy = self._copies[index]
        seat = self._acting.new_seat(actor_params, copy.rng, copy.trajectory)
        return fill(
            copy,
            self.steps,
            lambda: self._begin_episode(index, copy),
            lambda row: self._go_on_with(copy, seat, row),
            lambda: Outcome(copy.total, {"length": copy.environment.steps}, None),
        )

    def _begin_episode(self, index: int, copy: _Instance) -> None:
        copy.number, copy.total, copy.over = copy.number + 1, 0.0, False
        copy.rng.bit_generator.state = stream(self.seed, "environment", index, copy.number).bit_generator.state
        copy.environment.begin(seed_of(copy.rng), _name(index, copy))

    def _go_on_with(self, copy: _Instance, seat: PolicySlot, begin: int) -> int:
        """Play a copy's episode to its end or to the end of the rollout; return the row after."""
        observe, step, sample = copy.environment.observe, copy.environment.step, self._acting.sample
        rows, handle, actions, total = copy.trajectory, seat.handle, seat.actions, copy.total
        observations, rewards, masked = rows.observations, rows.rewards, copy.environment.masked
        if not masked:
            rows.masks[begin:] = True
        ended, cut = False, False
        for t in range(begin, self.steps):
            observe(observations[t])
            if masked:
                copy.environment.read_mask(rows.masks[t])
            status = sample(handle, t)
            if status != OK:
                copy.environment.fail(status)
            reward, ended, cut = step(actions[t])
            rewards[t] = reward
            total += reward
            if ended or cut:
                break
        end = t + 1
        rows.terminated[begin:end], rows.truncated[begin:end] = False, False
        rows.terminated[t], rows.truncated[t] = ended, cut
        copy.total, copy.over = total, ended or cut
        observe(observations[end])
        copy.environment.check_finite(observations[end])
        return end


def _name(index: int, copy: _Instance) -> str:
    return f"{copy.number} of copy {index}"
