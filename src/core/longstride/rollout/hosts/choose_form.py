"""Choice between the two forms of a trajectory on the wire, by measured seconds of a decision."""

from typing import Literal, NamedTuple

from longstride.errors import UserError
from longstride.policies.spec import PolicySpec
from longstride.rollout.hosts.dispatch import Traffic
from longstride.rollout.hosts.wire import Form, pack
from longstride.rollout.trajectory import Trajectory

Wanted = Literal["auto", "rows", "actions"]


class Costs(NamedTuple):
    """What a decision costs the learner in each form."""

    row_bytes: float  # bytes of a decision with all columns
    action_bytes: float  # bytes of its action, log-probability and the policy's state
    rebuild_seconds: float  # processor time of a thread to rebuild the other columns
    threads: int  # threads that rebuild at once
    bandwidth: float  # bytes a second that arrive from all hosts together

    @property
    def seconds(self) -> dict[Form, float]:
        """Seconds of a decision in each form: on the wire, or to rebuild it meanwhile, whichever is more."""
        rebuild = self.rebuild_seconds / self.threads
        return {
            "rows": self.row_bytes / self.bandwidth,
            "actions": max(self.action_bytes / self.bandwidth, rebuild),
        }


def choose_form(costs: Costs) -> tuple[Form, str]:
    """Return the form with fewer seconds, and a sentence with the measurements."""
    seconds = costs.seconds
    form: Form = "rows" if seconds["rows"] <= seconds["actions"] else "actions"
    return form, (
        f"Hosts send {'whole rows' if form == 'rows' else 'actions'}: {costs.row_bytes:,.0f} bytes a decision at "
        f"{costs.bandwidth / 1e6:,.0f} MB/s take {1e6 * seconds['rows']:.2f} µs, {costs.action_bytes:,.0f} bytes with "
        f"{1e6 * costs.rebuild_seconds:.2f} µs of rebuilding on {costs.threads} threads {1e6 * seconds['actions']:.2f}."
    )


class FormChoice:
    """The form of the next rollout: what the user wants, or what is faster by the first rollout's measurements.

    The first rollout comes as actions where that is possible, which shows what rebuilding takes. Both forms give the
    same trajectories to the bit, so the choice changes nothing in what is learned.

    Raises:
        UserError: actions are wanted of a simulator that cannot be rebuilt from them.
    """

    def __init__(self, wanted: Wanted, spec: PolicySpec, compiled: bool) -> None:
        problem = ""
        if not compiled:
            problem = "an environment of Gymnasium cannot be played again from its actions"
        elif spec.scores_actions:
            problem = "lists of feasible actions are as expensive to rebuild as to play"
        if problem and wanted == "actions":
            raise UserError(f"ROLLOUT_WIRE is 'actions', but {problem}; set it to 'auto'.")
        self.form: Form = "rows" if problem or wanted == "rows" else "actions"
        self._spec, self._open = spec, wanted == "auto" and not problem
        self.bandwidth = 0.0  # bytes a second, once a pool has measured it
        self._lines: list[str] = []

    @property
    def may_rebuild(self) -> bool:
        """Whether trajectories may come as actions."""
        return self.form == "actions"

    def learn(self, trajectory: Trajectory, steps: int, traffic: Traffic, threads: int) -> None:
        """Choose the form of the following rollouts after the first one, of so many steps, came as actions."""
        if not self._open or not self.bandwidth:
            return
        self._open = False
        of_one = sum(data.nbytes for *_, data in pack(trajectory, "rows", self._spec).values()) / trajectory.steps
        rebuild = traffic.store_seconds / steps
        costs = Costs(of_one, traffic.received_bytes / steps, rebuild, threads, self.bandwidth)
        self.form, line = choose_form(costs)
        self._lines.append(line)

    def take_lines(self) -> list[str]:
        """Return sentences for the user since the last call."""
        lines, self._lines = self._lines, []
        return lines
