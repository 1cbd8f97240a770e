"""Chooses the prior of an untrained policy: the one whose policy plays best in a short simulation.

The rule of thumb postpones, which loses time if work is sparse. So each prior plays some episodes, with the policy that
a run would begin with, only of a small network. The rule stays unless another prior is significantly better.
"""

import copy
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from longstride.errors import UserError
from longstride.process.kernel.policy_prior import ATC, LOGGED, PRIORS, RULE
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.hooks import Chosen, Records, Trial
from longstride.slow_steps import SlowSteps
from longstride.text import in_words, scale_of
from longstride.training.evaluation.evaluate import paired_values
from longstride.training.evaluation.statistics import paired_difference

EPISODES, MOST_TASKS = 8, 10_000
"""Episodes of the simulation, and the approximate number of tasks in each."""

MOST_EPISODES = 200
"""Episodes with due dates, if they are short: 8 of a few cases do not tell five rules apart."""

PRIOR, AUTO = "policy_prior", "auto"
"""The setting that names a prior, and its value for a run that chooses one."""

_NEEDS = {
    LOGGED: "scenario has no habits of a log (observations in service)",
    ATC: "objective weighs no due dates (tardiness or late)",
}
"""What is missing if a simulator does not have a prior; a pointer policy has none of these."""

_STREAMS = "policy prior"
"""Random streams of the simulation; no training and no evaluation uses them."""


def prior_of(source: Mapping[str, Any]) -> str:
    """Return the policy prior of a checkpoint's source.

    Raises:
        UserError: the prior is none that a run writes.
    """
    prior = source.get("prior", RULE)
    if prior not in PRIORS:
        raise UserError(f"The checkpoint's policy prior is {prior!r:.50}, which no run writes.")
    return str(prior)


def choose_prior(simulator: ProcessSimulator, is_open: bool, trial: Trial) -> Chosen:
    """Return the prior: named by settings, known from the resumed run, or found by a simulation.

    Args:
        simulator: process simulator.
        is_open: whether the settings leave the choice to the run.
        trial: the run's settings and functions for a trial.

    Raises:
        UserError: the settings name a prior that this simulator, or a pointer policy, does not have.
    """
    if not is_open:
        _require_its_data(simulator)
        if trial.describes_actions and trial.resumed is None and simulator.prior in _NEEDS:
            raise UserError(
                f"POLICY_PRIOR is {simulator.prior!r}, but a pointer policy sees neither a log's habits nor due dates; "
                f"leave it out, or choose one of {', '.join(name for name in PRIORS if name not in _NEEDS)}."
            )
        return Chosen({PRIOR: simulator.prior}, [])
    began = None if trial.resumed is None else trial.resumed.get(PRIOR, RULE)
    if began not in (None, AUTO):
        return Chosen({PRIOR: began}, [])
    with SlowSteps(trial.say) as steps:
        steps.begin("Comparing what an untrained policy may follow in short episodes")
        prior, lines = simulate(simulator, trial)
    return Chosen({PRIOR: prior}, lines)


def simulate(simulator: ProcessSimulator, trial: Trial) -> tuple[str, list[str]]:
    """Return the best prior, and a line about it unless it is the rule of thumb."""
    names = [name for name in PRIORS if name not in _NEEDS or (has(simulator, name) and not trial.describes_actions)]
    players = {name: shortened(ProcessSimulator(simulator.scenario, name)) for name in names}
    fitting = MOST_TASKS / simulator.sizes.expected_tasks if ATC in names else 0.0
    episodes = max(EPISODES, round(min(fitting, MOST_EPISODES)))
    return _judge(trial.play(players, episodes, _STREAMS), simulator)


def shortened(simulator: ProcessSimulator) -> ProcessSimulator:
    """Return a simulator whose episodes end after about ``MOST_TASKS`` tasks, but long after the warm-up."""
    share = min(1.0, MOST_TASKS / simulator.sizes.expected_tasks)
    end = max(share * float(simulator.parameters["horizon"]), 3.0 * float(simulator.parameters["warmup"]))
    short = copy.copy(simulator)
    short.parameters = simulator.parameters.copy()
    short.parameters["horizon"] = min(end, float(simulator.parameters["horizon"]))
    return short


def _judge(records: dict[str, Records], simulator: ProcessSimulator) -> tuple[str, list[str]]:
    """Return the prior with the least mean among those significantly better than the rule, else the rule."""
    metric, better = simulator.main_metric, dict[str, float]()
    for name in records:
        values, others = paired_values(records[name], records[RULE], metric)
        difference = paired_difference(values, others) if len(values) > 1 else None
        if difference is not None and difference.high is not None and difference.high < 0.0:
            better[name] = fmean(values)
    if not better:
        return RULE, []
    prior = min(better, key=lambda name: better[name])
    rule = fmean(record[metric] for record in records[RULE] if metric in record)
    scale = scale_of(simulator.unit_of(metric), rule)
    return prior, [
        f"The policy starts like {prior}, not from the rule of thumb: {scale.show(better[prior])} against "
        f"{scale.show(rule)} {in_words(metric)} in {len(records[RULE])} short episodes (POLICY_PRIOR names another "
        "start)."
    ]


def has(simulator: ProcessSimulator, prior: str) -> bool:
    """Return whether a simulator has what a prior needs: the heuristic of its name, if not every simulator has it."""
    return prior not in _NEEDS or prior in simulator.heuristics


def _require_its_data(simulator: ProcessSimulator) -> None:
    prior = simulator.prior
    if not has(simulator, prior):
        raise UserError(f"POLICY_PRIOR is {prior!r}, but the {_NEEDS[prior]}; choose another one.")
