"""Advantages within a group straight from the definition: loops over members, episodes and steps, nothing shared."""

import math

import numpy as np


def slow_group_advantages(trajectories, discounts, by_deviation=False):
    """Return float64[T] advantages of each member and bool[T]: which steps begin before the comparison of theirs ends.

    From a time on, an episode is worth the rewards of its later steps and the rest of the step under way, whose reward
    is spread evenly over it. It is discounted to that time; the rest of a step by the same share of its exponent. A
    step is worth its episode from it on, less the mean over the other members that have an episode of this number. The
    earliest time at which the rollout interrupts one of them ends the comparison: later rewards do not count.
    """
    clocked = any(t.elapsed.any() for t in trajectories)
    episodes = [slow_episodes(t, d, clocked) for t, d in zip(trajectories, discounts, strict=True)]
    advantages, before_end = ([np.zeros(t.steps, kind) for t in trajectories] for kind in (float, bool))
    for number in range(max(map(len, episodes))):
        present = {i: each[number] for i, each in enumerate(episodes) if number < len(each)}
        if len(present) < 2:
            continue
        end = min((steps[-1]["finish"] for steps in present.values() if not steps[-1]["ended"]), default=math.inf)
        spread = np.std([_worth(steps, 0, 0.0, end) for steps in present.values()]) if by_deviation else 0.0
        for i, steps in present.items():
            for place, step in enumerate(steps):
                if step["begin"] < end:
                    time = step["begin"]
                    before = sum(each["begin"] == time for each in steps[:place])
                    others = [_worth_from(other, time, end, before) for j, other in present.items() if j != i]
                    difference = _worth(steps, place, time, end) - sum(others) / len(others)
                    advantages[i][step["row"]] = difference / spread if spread > 0 else difference
                    before_end[i][step["row"]] = True
    return advantages, before_end


def slow_episodes(trajectory, discounts, clocked):
    """Return the steps of each episode: row, begin and finish in it, reward, discount, whether it ended there."""
    episodes, steps, time = [], [], 0.0
    for row in range(trajectory.steps):
        finish = time + (float(trajectory.elapsed[row]) if clocked else 1.0)
        ended = bool(trajectory.terminated[row] or trajectory.truncated[row])
        reward, discount = float(trajectory.rewards[row]), float(discounts[row])
        steps.append(dict(row=row, begin=time, finish=finish, reward=reward, discount=discount, ended=ended))
        time = finish
        if ended or row == trajectory.steps - 1:
            episodes, steps, time = [*episodes, steps], [], 0.0
    return episodes


def _worth_from(steps, time, end, before):
    """Return what an episode is worth from a time on, at which another has made some steps ``before``."""
    at_once = [place for place, step in enumerate(steps) if step["begin"] == time]
    if at_once:
        return _worth(steps, at_once[min(before, len(at_once) - 1)], time, end)
    for place, step in enumerate(steps):
        if step["begin"] < time < step["finish"]:
            return _worth(steps, place, time, end)
    return 0.0


def _worth(steps, place, time, end):
    """Return what an episode is worth from a time on, at which the step of this place begins or is under way."""
    total, factor, last = 0.0, 1.0, steps[-1]["finish"]
    if steps[place]["begin"] > time:
        raise ValueError("no step is under way")
    for step in steps[place:]:
        begin, duration = max(step["begin"], time), step["finish"] - step["begin"]
        left = (step["finish"] - begin) / duration if duration > 0 else 1.0
        if last <= end:
            counted = left
        elif duration > 0:
            counted = max(min(step["finish"], end) - begin, 0.0) / duration
        else:
            counted = float(begin < end)
        total += factor * counted * step["reward"]
        factor *= step["discount"] ** left
    return total
