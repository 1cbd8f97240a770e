"""Small scenarios as queues under control: what can happen in a state and what can be decided.

A state is a tuple of integers: the length of each activity's queue, then a code for each resource (0: free). A model
says how arrivals, completions and assignments change it, and reads it off a running simulator.
"""

from dataclasses import dataclass

from numba import njit

from longstride.errors import UserError
from longstride.process.kernel.parameters import Parameters, build_parameters
from longstride.process.scenario.scenario import Scenario
from longstride.simulators.simulator import Function

State = tuple[int, ...]

SIBLING_IN_SERVICE, SIBLING_DONE = -2, -1
MOST_RESOURCES_OF_A_FORK = 3
"""With four resources two cases can have both tasks in service, and which belong together would have to be known."""


@dataclass(frozen=True)
class Sequence:
    """Cases go through all activities, one after another.

    A resource's code is 1 + the activity it works on + the number of activities times the tasks after the first one,
    of which a batch has some.

    Attributes:
        p: the scenario's parameters.
        order: activities in the order of the flow.
    """

    p: Parameters
    order: list[int]

    def arrival(self, state: State) -> State:
        """Return the state after an arrival."""
        return _changed(state, {self.order[0]: +1})

    def completion(self, state: State, resource: int, activity: int) -> State:
        """Return the state after a resource has completed its task."""
        code = state[len(self.order) + resource]
        changes, place = {len(self.order) + resource: 0}, self.order.index(activity)
        if place + 1 < len(self.order):
            changes[self.order[place + 1]] = self.tasks_of(code)
        return _changed(state, changes, len(self.order))

    def assignment(self, state: State, activity: int, resource: int) -> State:
        """Return the state after the head of an activity's queue, or a batch of its tasks, was given to a resource."""
        tasks, queues = min(state[activity], int(self.p.batch_size[activity])), len(self.order)
        return _changed(state, {activity: -tasks, queues + resource: 1 + activity + queues * (tasks - 1)}, queues)

    def activity_of(self, code: int) -> int:
        """Return the activity that a busy resource with this code works on."""
        return (code - 1) % len(self.order)

    def tasks_of(self, code: int) -> int:
        """Return the number of tasks that a busy resource with this code works on."""
        return 1 + (code - 1) // len(self.order)

    def open_cases(self, state: State) -> int:
        """Return the number of open cases."""
        queues = len(self.order)
        return sum(state[:queues]) + sum(self.tasks_of(code) for code in state[queues:] if code)

    def encode(self) -> Function:
        """Return ``encode(state, p, code)``, compiled: it writes the state of a running simulator as int64[*]."""

        @njit(nogil=True)
        def encode(state, p, code):
            queues = len(state.queue_length)
            for a in range(queues):
                code[a] = state.queue_length[a]
                if p.batch_size[a] > 1:
                    code[a] = (code[a] - (state.gathered[a] > 0)) * p.batch_size[a] + state.gathered[a]
            for r in range(len(state.finish)):
                pair = state.busy_pair[r]
                code[queues + r] = 1 + p.pair_activity[pair] if pair >= 0 else 0
                if pair >= 0 and p.has_batches:
                    slot = state.work_member[r]
                    while slot >= 0:
                        code[queues + r], slot = code[queues + r] + queues, state.slot_member[slot]

        return encode


@dataclass(frozen=True)
class Fork:
    """Every case has two tasks that can be done at once and in any order; it is complete when both are.

    Both queues hold cases in the order of arrival, so their lengths n0 and n1 say which cases wait where: max(n0, n1)
    cases wait for something. A resource's code is 1 + activity + 2 (sibling + 2), where sibling is the place of the
    case in the other queue (0: its head), or SIBLING_IN_SERVICE, or SIBLING_DONE.

    Attributes:
        p: the scenario's parameters.
        lead: by how many cases one queue may be longer than the other after an assignment; a truncation.
    """

    p: Parameters
    lead: int

    def arrival(self, state: State) -> State:
        """Return the state after an arrival: both queues grow."""
        return _changed(state, {0: +1, 1: +1})

    def completion(self, state: State, resource: int, activity: int) -> State:
        """Return the state after a resource has completed its task; a sibling in service then is the last one."""
        after, sibling = list(state), _sibling(state[2 + resource])
        after[2 + resource] = 0
        if sibling == SIBLING_IN_SERVICE:
            partner = next(r for r in range(2, len(after)) if after[r] and _sibling(after[r]) == SIBLING_IN_SERVICE)
            after[partner] = _fork_code(1 - activity, SIBLING_DONE)
        return tuple(after)

    def assignment(self, state: State, activity: int, resource: int) -> State | None:
        """Return the state after the head of a queue was given to a resource, None where ``lead`` forbids it."""
        other = 1 - activity
        sibling = state[other] - state[activity]
        if sibling + 1 > self.lead:
            return None
        after = list(state)
        if sibling < 0:
            sibling = SIBLING_DONE
            for r in range(2, len(after)):
                if after[r] and self.activity_of(after[r]) == other:
                    place = _sibling(after[r])
                    if place == 0:  # the partner of the task that begins now
                        sibling, after[r] = SIBLING_IN_SERVICE, _fork_code(other, SIBLING_IN_SERVICE)
                    elif place > 0:
                        after[r] = _fork_code(other, place - 1)
        after[activity] -= 1
        after[2 + resource] = _fork_code(activity, sibling)
        return tuple(after)

    def activity_of(self, code: int) -> int:
        """Return the activity that a busy resource with this code works on."""
        return (code - 1) % 2

    def open_cases(self, state: State) -> int:
        """Return the number of open cases: those that wait, and those that are in service and wait nowhere."""
        siblings = [_sibling(code) for code in state[2:] if code]
        return max(state[:2]) + siblings.count(SIBLING_DONE) + siblings.count(SIBLING_IN_SERVICE) // 2

    def encode(self) -> Function:
        """Return ``encode(state, p, code)``, compiled: it writes the state of a running simulator as int64[*]."""

        @njit(nogil=True)
        def encode(state, p, code):
            code[0], code[1] = state.queue_length[0], state.queue_length[1]
            resources = len(state.finish)
            for r in range(resources):
                code[2 + r] = 0
                pair = state.busy_pair[r]
                if pair >= 0:
                    activity, case = p.pair_activity[pair], state.work_case[r]
                    sibling = case - (state.arrived - state.queue_length[1 - activity])
                    if sibling < 0:
                        sibling = SIBLING_DONE
                        for other in range(resources):
                            if other != r and state.busy_pair[other] >= 0 and state.work_case[other] == case:
                                sibling = SIBLING_IN_SERVICE
                    code[2 + r] = 1 + activity + 2 * (sibling + 2)

        return encode


Model = Sequence | Fork


def build_model(scenario: Scenario, lead: int = 8) -> Model:
    """Return a scenario as a decision problem.

    Args:
        scenario: a checked scenario.
        lead: for forks, see :class:`Fork`.

    Raises:
        UserError: it is not of a kind whose state is a few small numbers; the sentence says why.
    """
    _require_markov(scenario)
    p, _ = build_parameters(scenario)
    kind, content = next(iter(scenario.flow.items()))
    parts = [{"task": content}] if kind == "task" else content
    if kind not in ("task", "seq", "and") or not all(set(part) == {"task"} for part in parts):
        raise UserError("flow: this solves a task, a seq of tasks or an and of two tasks, nothing nested or random.")
    tasks = [part["task"] for part in parts]
    if sorted(tasks) != sorted(scenario.activities):
        raise UserError("flow: this solves flows in which each of the scenario's activities occurs exactly once.")
    order = [scenario.activities.index(task) for task in tasks]
    if kind != "and" or len(tasks) == 1:
        return Sequence(p, order)
    if len(tasks) != 2 or scenario.batches or len(scenario.resources) > MOST_RESOURCES_OF_A_FORK:
        raise UserError(
            f"flow: an and is solved for two tasks, no batches and at most {MOST_RESOURCES_OF_A_FORK} resources."
        )
    return Fork(p, lead)


def _require_markov(scenario: Scenario) -> None:
    """Refuse what makes the state more than queue lengths and who is busy with what."""
    if scenario.arrivals.process != "poisson":
        raise UserError(f"arrivals.process: this solves poisson arrivals, not {scenario.arrivals.process}.")
    for i, entry in enumerate(scenario.service):
        if entry.distribution != "exponential":
            raise UserError(f"service[{i}].distribution: this solves exponential times, not {entry.distribution}.")
    if scenario.delays or any(batch.start != "policy" or batch.longest for batch in scenario.batches):
        raise UserError("delays, batches: this solves batches without longest that policies begin, and no delays.")
    if scenario.working_hours:
        raise UserError("working_hours: this solves scenarios in which everybody is always on duty.")


def _changed(state: State, changes: dict[int, int], codes_from: int = 2**30) -> State:
    """Return a state with some queues changed by so much and, from ``codes_from`` on, codes replaced."""
    after = list(state)
    for i, value in changes.items():
        after[i] = value if i >= codes_from else after[i] + value
    return tuple(after)


def _fork_code(activity: int, sibling: int) -> int:
    return 1 + activity + 2 * (sibling + 2)


def _sibling(code: int) -> int:
    return (code - 1) // 2 - 2
