"""Recommends assignments in a state of a process, with a trained policy on the simulator's own observation."""

import base64
import binascii
import hashlib
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.policies.loaded_listed import LoadedListPolicy
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.policies.make_spec import spec_on
from longstride.process.recommend.advice import Advice, Reasons
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import describe
from longstride.process.snapshots.names import Names
from longstride.process.snapshots.schema import ProcessState, as_state
from longstride.process.snapshots.state_reader import PolicyInput, StateReader
from longstride.training.evaluation.trained_policy import TrainedPolicy

TOP = 10
"""Default number of assignments in an answer."""


class Recommender:
    """Recommends assignments in states of a process: the likeliest, or a draw if draws are better.

    No call depends on an earlier one, and the same state gets the same draw. Each thread needs its own object.

    Args:
        simulator: process simulator of the policy's training; any other one for a policy that scores actions.
        trained: trained policy.
        draws: whether an evaluation has shown draws to be better than the likeliest assignments.

    Attributes:
        simulator: that simulator.
        names: names of its scenario.

    Raises:
        UserError: the policy's parameters are not finite.
    """

    def __init__(self, simulator: ProcessSimulator, trained: TrainedPolicy, draws: bool = False) -> None:
        self.simulator, spec = simulator, spec_on(trained.spec, simulator)
        self._draws = draws
        kind = LoadedListPolicy if spec.scores_actions else LoadedPolicy
        self._policy: LoadedPolicy | LoadedListPolicy = kind(spec, trained.actor_params)
        self._reader, self.names = StateReader(simulator, spec.scores_actions), Names(simulator)
        self._reasons = Reasons(simulator)

    def recommend(self, state: dict[str, Any] | ProcessState, top: int = TOP) -> dict[str, Any]:
        """Return the recommendation in a state, JSON values of the form of :meth:`Advice.as_json`.

        Args:
            state: JSON values of a state, or a checked one.
            top: most assignments in the answer; 0 for all that are feasible.

        Raises:
            UserError: the value is not a state, or does not fit the scenario.
        """
        return self.advise(as_state(state), top).as_json()

    def compile(self) -> None:
        """Compile all functions now, since a first recommendation takes seconds."""
        p, scenario = self.simulator.parameters, self.simulator.scenario
        person, activity = scenario.resources[p.pair_resource[0]], scenario.activities[p.pair_activity[0]]
        task = {"case": "1", "activity": activity, "since": 0.0}
        self.recommend({"time": 0.0, "waiting": [task], "on_shift": [person]})

    def advise(self, state: ProcessState, top: int = TOP) -> Advice:
        """Return the recommendation in a checked state; arguments and errors are those of :meth:`recommend`."""
        described, cases = describe(state, self.names)
        given, reasons = self._reader.read(described), self._reasons
        heuristics = {name: reasons.named(given.state, action, cases) for name, action in given.choices.items()}
        if not given.feasible:
            return Advice(-1, None, [], 0, 1.0, heuristics, reasons.unit, state.memory)
        action, probabilities, memory = self._decide(given, state.memory)
        postpone = len(self.simulator.parameters.pair_mean)
        if self._draws:
            action = _drawn(probabilities, given.observation)
        ranked = sorted(probabilities, key=lambda pair: (pair != action, -probabilities[pair], pair))
        pairs = reasons.by_person(pair for pair in ranked if pair != postpone)
        shares = {pair: sum(probabilities[each] for each in own) for pair, own in pairs.items()}
        order = sorted(pairs, key=lambda pair: (pair != action, -shares[pair], pair))
        assignments = [
            reasons.of(
                given.state, pair, shares[pair], cases, [n for n, a in given.choices.items() if a in pairs[pair]]
            )
            for pair in (order[:top] if top else order)
        ]
        recommended = reasons.named(given.state, action, cases)
        postponed = probabilities[postpone]
        found = assignments, len(pairs), postponed, heuristics, reasons.unit, memory
        return Advice(action, recommended, *found, drawn=self._draws)

    def _decide(self, given: PolicyInput, memory: str) -> tuple[int, dict[int, float], str]:
        """Return the greedy action, the probability of each feasible action, and the memory afterwards."""
        policy = self._policy
        if isinstance(policy, LoadedListPolicy):
            place, found = policy.decide(given.observation, given.features)
            actions = given.actions.tolist()
            return actions[place], dict(zip(actions, found.tolist(), strict=True)), memory
        has_memory = policy.spec.has_memory
        if has_memory:
            policy.memory = _numbers(memory, policy.spec.state_size)
        action, found = policy.decide(given.observation, given.mask, given.features if given.features.size else None)
        actions = np.flatnonzero(given.mask)
        after = base64.b64encode(policy.memory.astype("<f4").tobytes()).decode() if has_memory else ""
        return action, dict(zip(actions.tolist(), found[actions].tolist(), strict=True)), after


def _drawn(probabilities: dict[int, float], observation: np.ndarray) -> int:
    """Return an action, drawn with its probability; the digest of both arguments replaces the random number."""
    shares = np.cumsum(np.fromiter(probabilities.values(), np.float64))
    digest = hashlib.sha256(np.ascontiguousarray(observation).tobytes() + shares.tobytes()).digest()
    place = np.searchsorted(shares, shares[-1] * (int.from_bytes(digest[:8]) / 2**64), side="right")
    return list(probabilities)[min(int(place), len(shares) - 1)]


def _numbers(memory: str, size: int) -> np.ndarray:
    """Return a state's memory, float32[size]; zeros, as at the beginning of an episode, if it is empty."""
    if not memory:
        return np.zeros(size, np.float32)
    try:
        content = base64.b64decode(memory, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != 4 * size:
        raise UserError("memory: this is not the memory of an earlier answer of this policy; leave it out to begin.")
    return np.frombuffer(content, "<f4").astype(np.float32)
