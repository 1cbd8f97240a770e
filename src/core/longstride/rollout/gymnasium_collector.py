"""Collects from Gymnasium environments: a Python loop around one compiled call of the policy a step."""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from longstride.policies.compiled.forward import new_policy_states
from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import Collector, CollectorState, EpisodeOutcome, InstanceTrajectory, RolloutPlan
from longstride.rollout.fault_locator import ReplayedInstance, received_action
from longstride.rollout.instances.fill_rollout import fill
from longstride.rollout.single_step_policy import PolicySlot, build_step_policy
from longstride.rollout.trajectory import Allocate, allocate, allocate_plain
from longstride.seeding import stream
from longstride.simulators.gym.open_environment import OpenEnvironment, seed_of
from longstride.simulators.simulator import OK, Simulator


class GymnasiumCollector(Collector):
    """Collects a number of steps from each of some environments, which are stepped one after another.

    The random stream of an episode is named by its instance and its number there.
    """

    def __init__(
        self, simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, new: Allocate = allocate_plain
    ) -> None:
        self.simulator, self.spec, self.plan, self.steps = simulator, spec, plan, plan.steps
        self.policy, self._hinted = build_step_policy(spec), False
        self._instances = [EnvironmentInstance(self, plan.first + i, new) for i in range(plan.instances)]

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[list[InstanceTrajectory], float]:
        """Collect steps from some environments."""
        begin = time.perf_counter()
        collected = [fill(self.steps, each.slot(actor_params), each) for each in self._instances[:count]]
        return collected, time.perf_counter() - begin

    def instance(self, index: int) -> "EnvironmentInstance":
        """Return an instance by its number."""
        return self._instances[index]

    def play(self, actor_params: np.ndarray, steps: int, instance: "EnvironmentInstance") -> InstanceTrajectory:
        """Collect so many steps from an instance of this collector."""
        instance.resize(steps)
        return fill(steps, instance.slot(actor_params), instance)

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the policy without a step of an environment; return the seconds it took."""
        begin = time.perf_counter()
        instance = self._instances[0]
        instance.trajectory.observations[0], instance.trajectory.masks[0] = 0.0, True
        self.policy.sample(instance.slot(actor_params).handle, 0)
        return time.perf_counter() - begin

    def state_dict(self) -> CollectorState:
        """Return the number of each instance's episode; the state of an environment cannot be saved."""
        return CollectorState({}, [{"number": instance.number} for instance in self._instances])

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue with the episodes after those; none is played twice, and the unfinished ones are given up."""
        for instance, metadata in zip(self._instances, state.metadata, strict=False):
            instance.number, instance.over = metadata["number"], True

    @property
    def terminated(self) -> bool:
        """False: nothing depends on it."""
        return False

    def restart_old_episodes(self, terminated: bool, parts: Sequence[Any] = ()) -> None:
        """Do nothing: environments are never restarted in the middle of an episode."""

    def resize(self, steps: int) -> None:
        """Collect so many steps from each environment from now on."""
        self.steps = steps
        for instance in self._instances:
            instance.resize(steps)

    def take_lines(self) -> list[str]:
        """Return a hint about the first observations, once."""
        hint = "" if self._hinted else self._instances[0].hint()
        self._hinted = self._hinted or bool(hint)
        return [f"Hint: {hint}"] if hint else []

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return nothing: the steps of an environment cannot be repeated."""
        return []


class EnvironmentInstance:
    """An environment of a collector, numbered ``index``, and the episode that it is in, ``number``: a ``Fillable``.

    The environment is opened when it is used first. The draws of the episode so far are kept: from its seed and them
    another process can bring an environment to the same place.
    """

    def __init__(self, collector: GymnasiumCollector, index: int, new: Allocate) -> None:
        self._collector, self._index, spec, steps = collector, index, collector.spec, collector.plan.steps
        self._drawn: list[np.ndarray] = []
        self.trajectory = self._capacity = allocate(spec, steps, new, steps, allocate_plain)
        self.trajectory.elapsed[:] = self.trajectory.control_variate[:] = 0.0
        self.number, self.over, self._total, self._fresh = -1, True, 0.0, 0
        self._policy_state = new_policy_states(spec, 1)[0]
        # One generator, of the environment's seed and then of the policy, set to the stream of each episode.
        self._rng = np.random.Generator(np.random.PCG64(0))

    @cached_property
    def environment(self) -> OpenEnvironment:
        """The environment."""
        return OpenEnvironment(self._collector.simulator)

    def hint(self) -> str:
        """Return a hint about the observations so far; empty for none."""
        return self.environment.hint() if "environment" in vars(self) else ""

    def resize(self, steps: int) -> None:
        """Fill the first rows of the memory from now on."""
        self.trajectory = self._capacity.shortened(steps)

    def slot(self, actor_params: np.ndarray) -> PolicySlot:
        """Return the policy's place at this environment."""
        return self._collector.policy.new_slot(actor_params, self._rng, self.trajectory, self._policy_state)

    def begin_episode(self) -> None:
        """Begin the next episode."""
        self.number, self.over, self._total, self._fresh = self.number + 1, False, 0.0, 1
        self._policy_state[:] = 0.0
        self._drawn.clear()
        self._begin()

    def _begin(self) -> None:
        begin = stream(self._collector.plan.seed, "environment", self._index, self.number)
        self._rng.bit_generator.state = begin.bit_generator.state
        self.environment.begin(seed_of(self._rng), f"{self.number} of instance {self._index}")

    def state_dict(self) -> dict[str, Any]:
        """Return what brings another environment to the same place: the episode, and its draws so far."""
        return {
            "number": self.number,
            "over": self.over,
            "total": self._total,
            "rng": self._rng.bit_generator.state,
            "policy_state": self._policy_state.copy(),
            "drawn": self._drawn_so_far(),
        }

    def _drawn_so_far(self) -> np.ndarray:
        """Return the draws of the episode, as rows of a trajectory; none once it is over."""
        none = self.trajectory.actions[:0].copy()
        return none if self.over else np.concatenate([none, *self._drawn])

    def load_state_dict(self, state: dict[str, Any], replay: bool) -> None:
        """Continue the episode of :meth:`state_dict`; with ``replay`` the environment makes its draws again.

        An environment that is at this place already is left as it is.
        """
        here = (self.number, self.over) == (state["number"], state["over"]) and np.array_equal(
            self._drawn_so_far(), state["drawn"]
        )
        self.number, self.over, self._total, self._fresh = state["number"], state["over"], state["total"], 0
        self._policy_state[:] = state["policy_state"]
        self._drawn = [state["drawn"]]
        if replay and not here and not self.over:
            self._begin()
            for drawn in state["drawn"].reshape(len(state["drawn"]), -1):
                self.environment.step(received_action(self._collector.simulator.action_space, drawn))
        self._rng.bit_generator.state = state["rng"]

    def collect_steps(self, slot: PolicySlot, begin: int) -> int:
        """Continue the episode to its end or to the last row; return the row after."""
        observe, step, sample = self.environment.observe, self.environment.step, self._collector.policy.sample
        rows, handle, actions, total = self.trajectory, slot.handle, slot.actions, self._total
        observations, rewards, masked = rows.observations, rows.rewards, self.environment.masked
        if not masked:
            rows.masks[begin:] = True
        terminated, truncated = False, False
        rows.begins[begin:] = False
        rows.begins[begin : begin + self._fresh] = True
        self._fresh = 0
        for t in range(begin, len(rewards)):
            observe(observations[t])
            if masked:
                self.environment.read_mask(rows.masks[t])
            status = sample(handle, t)
            if status != OK:
                self.environment.fail(status)
            reward, terminated, truncated = step(actions[t])
            rewards[t] = reward
            total += reward
            if terminated or truncated:
                break
        end = t + 1
        rows.terminated[begin:end], rows.truncated[begin:end] = False, False
        rows.terminated[t], rows.truncated[t] = terminated, truncated
        self._total, self.over = total, terminated or truncated
        self._drawn.append(rows.actions[begin:end].copy())
        observe(observations[end])
        self.environment.check_finite(observations[end])
        return end

    def outcome(self) -> EpisodeOutcome:
        """Return how the episode ended."""
        return EpisodeOutcome(self._total, {"length": self.environment.steps}, None)
