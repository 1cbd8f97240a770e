"""From a state of a process to a recommendation: a trained policy on the simulator's own observation."""

import base64
import binascii
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.policies.loaded_listed import LoadedListPolicy
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.policies.make_spec import spec_on
from longstride.process.recommend.advice import Advice, Reasons
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import describe
from longstride.process.snapshots.look import Lookout, View
from longstride.process.snapshots.names import Names
from longstride.process.snapshots.schema import ProcessState, as_state
from longstride.training.evaluation.trained_policy import TrainedPolicy

TOP = 10
"""Assignments of an answer, if nobody says how many."""


class Recommender:
    """Recommends assignments in states of a process, as the greedy policy of an evaluation chooses them.

    It keeps nothing from one call to the next. Each thread needs an object of its own.

    Args:
        simulator: process simulator that the policy was trained on; of a policy that scores actions any other, too.
        trained: trained policy.

    Attributes:
        simulator: that simulator.
        names: names of its scenario.

    Raises:
        UserError: the policy's parameters are not finite.
    """

    def __init__(self, simulator: ProcessSimulator, trained: TrainedPolicy) -> None:
        self.simulator, spec = simulator, spec_on(trained.spec, simulator)
        kind = LoadedListPolicy if spec.scores_actions else LoadedPolicy
        self._policy: LoadedPolicy | LoadedListPolicy = kind(spec, trained.actor_params)
        self._lookout, self.names = Lookout(simulator, spec.scores_actions), Names(simulator)
        self._reasons = Reasons(simulator)

    def recommend(self, state: dict[str, Any] | ProcessState, top: int = TOP) -> dict[str, Any]:
        """Return the recommendation in a state, JSON values of the form of :meth:`Advice.as_json`.

        Args:
            state: JSON values of a state, or a checked one.
            top: most assignments in the answer; 0 for all that are feasible.

        Raises:
            UserError: the state is not of the form of a state, or it does not fit the scenario.
        """
        return self.advise(as_state(state), top).as_json()

    def compile(self) -> None:
        """Compile everything now: a first recommendation takes seconds."""
        p, scenario = self.simulator.parameters, self.simulator.scenario
        person, activity = scenario.resources[p.pair_resource[0]], scenario.activities[p.pair_activity[0]]
        task = {"case": "1", "activity": activity, "since": 0.0}
        self.recommend({"time": 0.0, "waiting": [task], "on_shift": [person]})

    def advise(self, state: ProcessState, top: int = TOP) -> Advice:
        """Return the recommendation in a checked state; arguments and errors are those of :meth:`recommend`."""
        described, cases = describe(state, self.names)
        view, reasons = self._lookout.look(described), self._reasons
        heuristics = {name: reasons.named(view.state, action, cases) for name, action in view.choices.items()}
        if not view.feasible:
            return Advice(-1, None, [], 0, 1.0, heuristics, reasons.unit, state.memory)
        action, probabilities, memory = self._decide(view, state.memory)
        postpone = len(self.simulator.parameters.pair_mean)
        ranked = sorted(probabilities, key=lambda pair: (pair != action, -probabilities[pair], pair))
        pairs = [pair for pair in ranked if pair != postpone]
        assignments = [
            reasons.of(view.state, pair, probabilities[pair], cases, [n for n, a in view.choices.items() if a == pair])
            for pair in (pairs[:top] if top else pairs)
        ]
        recommended = reasons.named(view.state, action, cases)
        postponed = probabilities[postpone]
        return Advice(action, recommended, assignments, len(pairs), postponed, heuristics, reasons.unit, memory)

    def _decide(self, view: View, memory: str) -> tuple[int, dict[int, float], str]:
        """Return the greedy action, the probability of each feasible action, and the memory afterwards."""
        policy = self._policy
        if isinstance(policy, LoadedListPolicy):
            place, found = policy.decide(view.observation, view.features)
            actions = view.actions.tolist()
            return actions[place], dict(zip(actions, found.tolist(), strict=True)), memory
        has_memory = policy.spec.has_memory
        if has_memory:
            policy.memory = _numbers(memory, policy.spec.state_size)
        action, found = policy.decide(view.observation, view.mask, view.features if view.features.size else None)
        actions = np.flatnonzero(view.mask)
        after = base64.b64encode(policy.memory.astype("<f4").tobytes()).decode() if has_memory else ""
        return action, dict(zip(actions.tolist(), found[actions].tolist(), strict=True)), after


def _numbers(memory: str, size: int) -> np.ndarray:
    """Return the memory in a state, float32[size]; zeros, as when an episode begins, where it is empty."""
    if not memory:
        return np.zeros(size, np.float32)
    try:
        content = base64.b64decode(memory, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != 4 * size:
        raise UserError("memory: this is not the memory of an earlier answer of this policy; leave it out to begin.")
    return np.frombuffer(content, "<f4").astype(np.float32)
