"""The comparison at the end of a run: which of its policies is the best one, and whether it draws its actions."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.text import counted, in_words, scale_of, with_margin
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.contenders import WAYS, Contenders
from longstride.training.choice.halving import FEWEST_OF_TWO, FOR_EACH_ARM, Arm, Halved, halve
from longstride.training.choice.long_episodes import look_again
from longstride.training.choice.rare_losses import vanishes_with_a_loss
from longstride.training.choice.rare_states import Excursions, compare_from
from longstride.training.evaluation.comparison import Verdict, compare
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.evaluation.periodic import PeriodicEvaluation
from longstride.training.evaluation.statistics import mean_and_margin
from longstride.training.run_directory.acting_file import FROM_RARE_STATES, keep_acting
from longstride.training.run_directory.directory import RunDirectory

_CONTENDERS = 4
"""Candidates that are compared."""

_LEAST_FOR_MEAN = 2 * FOR_EACH_ARM
"""Episodes in all from which the mean takes part: an arm beside it and the newest policy plays as well."""

_FOR_RARE_STATES = 0.25
"""Share of the steps for episodes from rarely visited states."""


class Choice(NamedTuple):
    """The policy that a run ends with."""

    candidate: Candidate
    draws: bool  # whether it draws its actions
    value: float  # mean of its main metric
    margin: float  # half of the 95 % interval of the mean
    episodes: int  # episodes of it, long ones if there were some
    policies: int  # policies that were compared
    steps: int  # environment steps of the comparison, not counting those from rarely visited states or of long episodes
    verdict: Verdict | None  # how its draws compare with its likeliest actions; None if not both were played
    rare: Excursions | None = None  # the same from rarely visited states; None if that decides nothing
    longest: int = 0  # most steps of a long episode; 0 if there were none


def choose(
    candidates: Candidates,
    evaluation: PeriodicEvaluation,
    simulator: Simulator,
    spec: PolicySpec,
    budget: float,
    rare_states: np.ndarray,
    mean_policy: Candidate | None = None,
    rare_loss: float = 0.0,
    taken: float = 0.0,
    further: float = 0.0,
) -> Choice | None:
    """Compare the mean of the late policies, the newest one and the best others; None if the budget is too small.

    The mean takes part if the budget allows a third arm. The likeliest actions of the first one stay unless another one
    is shown to be better. Each plays greedily and by draws. In a small budget draws of the newest one come before
    earlier policies if it leads in evaluations. An earlier one is not the best if its gain is there only because its
    episodes have had no rare loss.

    Where most episodes were cut, long ones decide. If the likeliest actions of the best one are not shown to be better
    than draws, rarely visited states do.

    Args:
        candidates: policies of the run, the newest one last.
        evaluation: evaluations of the run, by whose loop and length of episodes the policies play.
        simulator: simulator of the run.
        spec: architecture of the policies.
        budget: environment steps of all episodes.
        rare_states: rarely visited states of the run, ``state_dtype``[n].
        mean_policy: mean of its late policies; None if there is none.
        rare_loss: largest loss of a part of an episode that training met once in a while; 0 if there is none.
        taken: steps that an episode took in the last evaluation, if that is known and more than expected.
        further: environment steps of long episodes.
    """
    newest, steps = candidates.kept[-1], max(evaluation.episode_steps, taken)
    aside = _put_aside(budget, steps) if len(rare_states) and not spec.has_memory else 0.0
    means = [mean_policy] if mean_policy is not None and budget - aside >= _LEAST_FOR_MEAN * steps else []
    others = (each for each in candidates.in_order() if each is not newest)
    contenders = Contenders([newest, *means, *others][:_CONTENDERS], evaluation, simulator, spec)
    arms = _arms(len(contenders.of), len(means), _leads(candidates, spec))
    judged = simulator.main_metric_lower_is_better, [each.worst for each in contenders.of]
    found = halve(arms, contenders.play, budget - aside, steps, *judged, len(means))
    if found is None:
        return None
    best, decided = _best_of(found, arms[0], contenders.returns, len(means), rare_loss), found
    if longest := contenders.longest(further):
        decided = look_again(arms[0], best, arms, contenders.play_long, further, longest, *judged)
        best = _best_of(decided, arms[0], contenders.returns_long, len(means), rare_loss)
    if not (numbers := [value for value in decided.values[best] if value is not None]):
        return None
    verdict = _draws_against_likeliest(decided.values, best.candidate, simulator)
    rare, is_open = None, not best.draws and (verdict is None or verdict.word == "no difference shown")
    if aside and is_open:
        rare = compare_from(rare_states, partial(evaluation.play_from, contenders.params[best.candidate]), aside)
    draws = best.draws or (rare is not None and rare.draws_are_better)
    mean, margin = map(float, mean_and_margin(np.array(numbers)))
    counts = len(numbers), len({arm.candidate for arm in decided.values}), found.steps
    return Choice(contenders.of[best.candidate], draws, mean, margin, *counts, verdict, rare, longest)


def _put_aside(budget: float, steps: float) -> float:
    """Return the steps for rarely visited states; none if too few are left for episodes of so many steps."""
    aside = _FOR_RARE_STATES * budget
    return aside if budget - aside >= FEWEST_OF_TWO * steps else 0.0


def _arms(contenders: int, means: int, newest_leads: bool) -> list[Arm]:
    """Return all arms, that of the mean first; a small budget leaves the last ones out.

    Draws come later than the likeliest actions, by one candidate if the newest one leads, else by two.
    """
    later = means + (0.5 if newest_leads else 1.5)
    arms = [Arm(i, draws) for draws in (False, True) for i in range(contenders)]
    return sorted(arms, key=lambda arm: -1.0 if arm == Arm(means, False) else arm.candidate + later * arm.draws)


def _leads(candidates: Candidates, spec: PolicySpec) -> bool:
    """Return whether evaluations of all candidates rank the newest one first, and its actions are choices.

    Draws of real-valued actions are hardly better than the likeliest ones.
    """
    ranked, kept = candidates.ranked(), candidates.kept
    return not spec.is_gaussian and len(ranked) == len(kept) and ranked[0] is kept[-1]


def _best_of(found: Halved, first: Arm, returns: Mapping[Arm, Sequence[float]], means: int, rare_loss: float) -> Arm:
    """Return the best arm, unless it is an earlier policy whose gain is there only without a rare loss."""
    if found.best.candidate <= means:
        return found.best
    return first if vanishes_with_a_loss(returns[found.best], returns[first], rare_loss) else found.best


def _draws_against_likeliest(
    values: dict[Arm, list[float | None]], candidate: int, simulator: Simulator
) -> Verdict | None:
    """Return how the draws of a candidate compare with its likeliest actions in the episodes of both."""
    ways = {name: values.get(Arm(candidate, draws), []) for draws, name in WAYS.items()}
    count, metric = min(map(len, ways.values())), simulator.main_metric
    records = {
        name: [{metric: value} if value is not None else {} for value in of[:count]] for name, of in ways.items()
    }
    return compare(Evaluation(count, records), simulator, "trained_sampled", "trained")


def choice_line(simulator: Simulator, choice: Choice, cut: int = 0) -> str:
    """Return the line about the policy that a run ends with; episodes that are not long were cut after some steps."""
    metric, iteration = simulator.main_metric, choice.candidate.iteration
    scale = scale_of(simulator.unit_of(metric), choice.value)
    which = f"the one after iteration {iteration}" if iteration else "the untrained one"
    which = "the mean of its late ones" if choice.candidate.is_mean else which
    number = with_margin(choice.value * scale.factor, choice.margin * scale.factor)
    episodes, cut = counted(choice.episodes, "further episode"), choice.longest or cut
    effort = f"the best of {choice.policies} in {episodes}"
    effort += f" of at most {cut:,} steps" if cut else ""
    draws = ", drawing its actions" if choice.draws else ""
    return f"The policy of the run is {which}, {effort}: {in_words(metric)} {number}{scale.suffix}{draws}."


def keep_choice(directory: RunDirectory, choice: Choice) -> None:
    """Keep with a run whether its policy draws its actions, and what has shown it; nothing if nothing has.

    Raises:
        UserError: it cannot be written.
    """
    shown = choice.verdict.as_json() if choice.verdict is not None else {}
    if choice.rare is not None:
        shown |= {FROM_RARE_STATES: choice.rare.as_json()}
    if shown:
        keep_acting(directory, choice.draws, shown, choice.candidate.params)
