"""The process simulator: actions, observation and reward of the simulator contract."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longstride.process.kernel import arrivals, attendance, dynamics, heuristics, metrics, policy_prior
from longstride.process.kernel.aims import quantities
from longstride.process.kernel.pairs import action_features, describe, figures, summary
from longstride.process.kernel.parameters import Parameters, as_record, build_parameters
from longstride.process.kernel.state import CASES_FULL, OPEN_CASES_FULL, WAITING_FULL, state_dtype
from longstride.process.scenario.aims import LAST
from longstride.process.scenario.at_once import with_slots, without_slots
from longstride.process.scenario.routing import build_routing
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario.schema import Batch
from longstride.simulators.simulator import Function, Simulator
from longstride.simulators.spaces import Discrete


class ProcessSimulator(Simulator):
    """A process in which each action assigns a waiting task to a person.

    Actions: the possible (activity, resource) pairs, activity by activity, then ``postpone``. A pair gives the head of
    the activity's queue to the resource; postpone waits for the first later event that leaves a feasible pair.
    Reward: minus the integral of the number of open cases since the last step, divided by the expected number of cases.
    So an episode's return is minus its mean cycle time, up to the randomness in the number of arrivals. A batch is
    begun with the tasks that have gathered, if the scenario leaves its start to policies. If the scenario has external
    delays, only cases with a task that waits for a resource or is served count. The aims of the scenario may weigh
    other quantities in place of the open cases.

    Attributes:
        scenario: checked scenario that is simulated.
        prior: prior of an untrained policy, one of ``policy_prior.PRIORS``.
        routing: its flow as nodes.
        arrays: its numbers, from which the record ``parameters`` is made.
        sizes: sizes of the state record and of a nominal episode.
    """

    main_metric_lower_is_better = True
    exploring_starts = False  # not measured: its policies begin with a rule
    heuristics: Mapping[str, Function] = {
        "random": heuristics.random,
        "fifo": heuristics.first_in_first_out,
        "spt": heuristics.shortest_processing_time,
    }
    bounds: Mapping[str, Function] = {"lower_bound": metrics.lower_bound}
    reset = staticmethod(dynamics.start)
    action_features = staticmethod(action_features.action_features)
    summarise = staticmethod(summary.summarise)
    describe_actions = staticmethod(describe.describe_actions)
    control_variate = staticmethod(arrivals.arrivals_in_excess)
    episode_metrics = staticmethod(metrics.episode_metrics)

    def __init__(self, scenario: Scenario, prior: str = policy_prior.RULE) -> None:
        self.scenario, self.prior = scenario, prior = with_slots(scenario), prior
        self.routing = routing = build_routing(scenario.flow, scenario.activities)
        self.arrays, self.sizes = parameters, _ = build_parameters(scenario, routing)
        pairs, resources = len(parameters.pair_mean), len(scenario.resources)
        self.action_space = Discrete(pairs + 1)
        self.observation_size = pairs + 2 * resources + 3 * len(scenario.activities) + 2
        if scenario.has_clock:
            self.observation_size += resources + 4
        self.observation_size += int(parameters.batch_by_policy.sum())
        if parameters.watches:
            self.observation_size += len(scenario.activities) + 1
        self.max_steps = self.sizes.max_steps
        self.expected_steps = max(1, round(self.sizes.expected_tasks))
        second = {"second_feature": np.array(policy_prior.second_feature(parameters, prior))}
        self.parameters = as_record(parameters, figures.pair_figures(parameters, routing, scenario.on_duty) | second)[0]
        self.initial_logits, self.initial_feature_weights = policy_prior.initial_policy(parameters, routing, prior)
        self.action_feature_size = len(self.initial_feature_weights)
        self.initial_description_weights = figures.initial_weights(prior, bool(parameters.starts_batches))
        self.summary_size, self.description_size = summary.SIZE, len(self.initial_description_weights)
        self.expected_actions = figures.expected_actions(parameters, self.sizes, routing, scenario.on_duty)
        self.mean_interval = scenario.horizon.value / self.sizes.expected_cases
        self.state_dtype = state_dtype(parameters, self.sizes)
        people = without_slots(scenario).resources
        self.metrics_dtype = metrics.metrics_dtype(len(people), scenario.has_delays, scenario.aims, scenario.classes)
        self.labels = _labels(scenario, parameters, self.initial_feature_weights, prior)
        shown = scenario.time_unit, scenario.has_delays, scenario.aims, scenario.classes
        self.metric_units = metrics.metric_units(*shown)
        self.main_metric = scenario.aims.shown_metric
        self.metric_labels = {"utilisation": people}
        if parameters.pair_habit.any():
            self.heuristics = {**self.heuristics, "logged": heuristics.logged}
        costs = scenario.aims.costs
        if costs is not None and (costs.per_task or len(set(costs.rates(scenario.resources))) > 1):  # else it is spt
            self.heuristics = {**self.heuristics, "cheapest": heuristics.cheapest}
        if scenario.aims.due is not None and scenario.aims.due.differs:
            self.heuristics = {**self.heuristics, "edd": heuristics.earliest_due_date}
        if self.parameters["due_share"]:
            self.heuristics = {**self.heuristics, "atc": heuristics.apparent_tardiness_cost}
        if len(set(parameters.class_weight)) > 1:  # else it is spt
            self.heuristics = {**self.heuristics, "wspt": heuristics.weighted_shortest_processing_time}
        if parameters.starts_batches:
            self.heuristics = {**self.heuristics, "full_batches": heuristics.full_batches}
            if np.isfinite(parameters.batch_longest[parameters.batch_by_policy > 0]).any():  # else it is the same
                self.heuristics = {**self.heuristics, "ready_batches": heuristics.ready_batches}

    @staticmethod
    def action_mask(state: Any, parameters: Parameters, mask: np.ndarray) -> None:
        """Write the mask, bool[P + 1]: the feasible pairs and postpone."""
        lengths, available = state.queue_length, state.available  # names of arrays spare their lookup in a loop
        first, resource = parameters.activity_pairs, parameters.pair_resource
        for a in range(len(lengths)):
            waits = lengths[a] > 0
            for pair in range(first[a], first[a + 1]):
                mask[pair] = waits and available[resource[pair]] != 0

    @staticmethod
    def step(state: Any, parameters: Parameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Assign or postpone, and run to the next step; never terminates, the horizon truncates."""
        state.decisions += 1
        postponed = action == len(parameters.pair_mean)
        if not postponed:
            dynamics.assign(state, parameters, action)
        if postponed or not attendance.feasible(state, parameters):
            dynamics.run_to_step(state, parameters)
        value = quantities.take(state, parameters) if parameters.counts else state.area
        reward = -value * parameters.reward_scale
        state.area = 0.0
        return reward, False

    @staticmethod
    def truncated(state: Any, parameters: Parameters) -> bool:
        """Whether the horizon or a capacity is reached."""
        return state.ended != 0  # type: ignore[no-any-return]

    @staticmethod
    def time(state: Any, parameters: Parameters) -> float:
        """Return the simulated time in the scenario's unit."""
        return state.time  # type: ignore[no-any-return]

    @staticmethod
    def observe(state: Any, parameters: Parameters, observation: np.ndarray) -> None:
        """Write the observation, float32[observation_size].

        In this order: for each pair whether its resource works on it now; for each resource whether it is available,
        and the elapsed service time e as e / (e + mean); for each activity log(1 + queue length), log(1 + age of the
        queue's head in mean service times) and queue length; log(1 + open cases) and open cases, without those in an
        external delay. With due dates or a target, then for each activity the time t that the case at the queue's head
        has left in mean service times, as log(1 + t), or as -log(1 - t) if it is past, and log(1 + late open cases).
        For each activity whose batches policies begin, the share of a batch that has gathered since the last full one.
        If the hour matters, then whether each resource is on duty, and sine and cosine of the hour of
        the day and of the week.
        """
        p = parameters
        pairs, resources, activities = len(p.pair_mean), len(state.finish), len(state.queue_length)
        now, unit = state.time, p.service_unit
        observation[:pairs] = 0.0
        k = pairs + resources
        busy_pair, available, started, means = state.busy_pair, state.available, state.started, p.pair_mean
        for r in range(resources):
            pair = busy_pair[r]
            observation[pairs + r] = available[r]
            observation[k + r] = 0.0
            if pair >= 0:
                observation[pair] = 1.0
                elapsed = now - started[r]
                observation[k + r] = elapsed / (elapsed + means[pair])
        k += resources
        lengths, heads, enabled = state.queue_length, state.queue_head, state.slot_enabled
        for a in range(activities):
            length = lengths[a]
            observation[k + a] = observation[k + activities + a] = 0.0
            if length > 0:  # a logarithm of 1 costs as much as any other
                age = (now - enabled[heads[a]]) / unit
                observation[k + a], observation[k + activities + a] = figures.log1p_of(p, length), math.log1p(age)
            observation[k + 2 * activities + a] = length
        k += 3 * activities
        observation[k] = figures.log1p_of(p, state.open - state.resting)
        k += 1
        observation[k] = state.open - state.resting
        k += 1
        if p.watches:
            for a in range(activities):
                observation[k + a] = 0.0
                if state.queue_length[a] > 0:
                    left = quantities.slack(state, p, state.slot_case[state.queue_head[a]]) / p.service_unit
                    observation[k + a] = math.copysign(math.log1p(abs(left)), left)
            observation[k + activities] = math.log1p(state.late_open)
            k += activities + 1
        if p.starts_batches:
            for a in range(activities):
                if p.batch_by_policy[a]:
                    observation[k] = state.gathered[a] / p.batch_size[a]
                    k += 1
        if k < len(observation):
            for r in range(resources):
                observation[k + r] = state.on_duty[r]
            k += resources
            day = 2.0 * math.pi * state.time / (24.0 * p.hour)
            observation[k], observation[k + 1] = math.sin(day), math.cos(day)
            observation[k + 2], observation[k + 3] = math.sin(day / 7.0), math.cos(day / 7.0)

    def message(self, state: Any) -> str | None:
        """Return a sentence about the capacity that ended an episode, or None."""
        if state.overflow == 0:
            return None
        capacity = {
            CASES_FULL: f"the {self.sizes.cases:,} cases that an episode can hold",
            OPEN_CASES_FULL: f"the capacity of {self.parameters.max_open_cases:,} open cases",
            WAITING_FULL: f"the capacity of {self.sizes.waiting:,} waiting tasks",
        }[int(state.overflow)]
        queues = sorted(zip(state.queue_length, self.scenario.activities, strict=True), reverse=True)
        backlog = ", ".join(f"{int(n):,} at {name}" for n, name in queues[:3])
        why = (
            "The policy falls behind, or the scenario's resources cannot carry its arrivals."
            if any(state.queue_length)
            else "Nothing waits for people, so no policy can change that: raise the capacity or shorten the horizon."
        )
        return (
            f"Episode ended at time {float(state.time):,.0f} of {self.scenario.horizon.value:,.0f}: it "
            f"reached {capacity} (open cases {int(state.open):,}; waiting {backlog}). {why}"
        )

    def description(self) -> dict[str, Any]:
        """Return the contract's description with the scenario's name and a digest of its content."""
        unbatched: dict[str, Any] = {} if self.scenario.policy_starts_batches else {"batches": {"__all__": {"start"}}}
        leave = set() if self.scenario.has_leave else {"begins", "absences", "holidays"}  # files without them
        unused = unbatched | dict.fromkeys(leave | {"logged"}, True)
        for later in ("at_once", "case_values", "queue_discipline_between_activities"):
            if getattr(self.scenario, later) in (None, {}, "oldest case first"):
                unused[later] = True
        if all(plan.of == 1 for plans in self.scenario.rosters.values() for plan in plans):
            unused["rosters"] = {name: {"__all__": {"week", "of"}} for name in self.scenario.rosters}
        if not self.parameters["counts"]:
            unused["aims"] = True
        else:
            unused["aims"] = _unused_aims(self.scenario)
        digest = hashlib.sha256(self.scenario.model_dump_json(exclude=unused).encode()).hexdigest()
        prior = {} if self.prior == policy_prior.RULE else {"prior": self.prior}
        return {**super().description(), "scenario": self.scenario.name, "scenario_sha256": digest, **prior}


def _unused_aims(scenario: Scenario) -> dict[str, Any]:
    """Return the keys of aims that files without them do not have, as pydantic excludes them."""
    unused: dict[str, Any] = {} if scenario.aims.late_cases == LAST else {"late_cases": True}
    if not scenario.classes:
        unused |= {"class_weights": True, **({"due": {"by_class"}} if scenario.aims.due else {})}
    return unused


def _labels(scenario: Scenario, parameters: Parameters, weights: np.ndarray, prior: str) -> dict[str, Sequence[str]]:
    """Return the names of observations, actions and action features, in the order in which they are written."""
    features = "the same where negative", "serves the oldest case", "urgency", "serves the longest wait"
    second = features[policy_prior.second_feature(parameters, prior)]
    activities, resources = scenario.activities, scenario.resources
    of_batches = ["tasks too few to begin a batch", "missing share of a batch"] if parameters.starts_batches else []
    usual = len(weights) - len(of_batches)
    indices = zip(parameters.pair_activity.tolist(), parameters.pair_resource.tolist(), strict=True)
    pairs = [(activities[a], resources[r]) for a, r in indices]
    observation = [f"{resource} works on {activity}" for activity, resource in pairs]
    observation += [f"{resource} is available" for resource in resources]
    observation += [f"elapsed share of the task of {resource}" for resource in resources]
    for figure in ("log(1 + queue length)", "log(1 + age of the oldest in mean service times)", "queue length"):
        observation += [f"{figure} of {activity}" for activity in activities]
    observation += ["log(1 + open cases)", "open cases"]
    if parameters.watches:
        observation += [f"signed log(1 + time left in mean service times) of {activity}" for activity in activities]
        observation += ["log(1 + late open cases)"]
    observation += [f"share of a batch of {batch.activity} that gathers" for batch in _begun_by_policies(scenario)]
    if scenario.has_clock:
        observation += [f"{resource} is on duty" for resource in resources]
        observation += [f"{curve} of the {period}" for period in ("day", "week") for curve in ("sine", "cosine")]
    return {
        "observation": observation,
        "action": [*(f"{resource} does {activity}" for activity, resource in pairs), "postpone"],
        "features": [*["log of queue over own service time", second, "branches behind"][:usual], *of_batches],
    }


def _begun_by_policies(scenario: Scenario) -> list[Batch]:
    """Return the batches that policies begin, in the order of the activities."""
    own = (batch for batch in scenario.batches if batch.start == "policy")
    return sorted(own, key=lambda batch: scenario.activities.index(batch.activity))
