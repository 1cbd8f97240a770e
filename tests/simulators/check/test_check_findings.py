"""Each thing that check_simulator finds, by a small simulator that does it."""

import re
import signal
import threading
import time
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from longstride.errors import SimulatorError, UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.compile import compile_each
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, Discrete

COUNT = 0
HISTORY: list[int] = []
OWN = np.random.default_rng(1)
TABLE = {"one": 1.0}


class Settings(NamedTuple):
    prices: np.ndarray


class Walk(Simulator):
    """Keeps the contract: a walk on 0 .. 9 that ends at 9."""

    observation_size = 2
    action_space = Discrete(3)
    max_steps = 50
    parameters = Settings(np.ones(3))
    state_dtype = np.dtype(
        [("x", np.int64), ("count", np.int64), ("small", np.uint8), ("clock", np.float64), ("past", np.int64, (4,))]
    )
    metrics_dtype = np.dtype([("last", np.float64)])

    def reset(state, parameters, rng):
        state.x = rng.integers(0, 4)
        state.count = 0
        state.small = 0
        state.clock = 0.0
        state.past[:] = 0

    def observe(state, parameters, observation):
        observation[0] = state.x
        observation[1] = state.count

    def action_mask(state, parameters, mask):
        mask[0] = state.x > 0

    def step(state, parameters, action, rng):
        state.x = max(state.x + action - 1 + rng.integers(0, 2), 0)
        state.count += 1
        return 1.0, state.x >= 9

    def episode_metrics(state, parameters, metrics):
        metrics.last = state.x


def message(simulator, **options):
    with pytest.raises(UserError) as error:
        check_simulator(simulator(), **options)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")
    assert str(error.value).startswith((simulator.__name__, "Numba cannot compile " + simulator.__name__))
    return str(error.value)


def hints(simulator):
    found = check_simulator(simulator())
    assert all("\n" not in hint and hint.endswith(".") for hint in found)
    return found


def test_a_simulator_that_keeps_the_contract_passes():
    assert check_simulator(Walk()) == []


# Not repeatable


class GlobalGenerator(Walk):
    def step(state, parameters, action, rng):
        state.x = np.random.randint(0, 1000)
        return 1.0, False


class GlobalGeneratorInReset(Walk):
    def reset(state, parameters, rng):
        state.x = np.random.randint(0, 1000)
        state.count = 0


class GlobalGeneratorInMask(Walk):
    def action_mask(state, parameters, mask):
        mask[1] = np.random.random() < 0.5


class MaskOfCalls(Walk):
    def action_mask(state, parameters, mask):
        HISTORY.append(1)
        mask[1] = len(HISTORY) % 2 == 0


class MaskOfTheClock(Walk):
    def action_mask(state, parameters, mask):
        mask[1] = time.perf_counter_ns() // 1_000 % 2 == 0


class OwnGenerator(Walk):
    def step(state, parameters, action, rng):
        return OWN.random(), False


class GlobalCounter(Walk):
    def step(state, parameters, action, rng):
        global COUNT
        COUNT += 1
        return float(COUNT), False


class GlobalCounterShown(Walk):
    def observe(state, parameters, observation):
        observation[0] = len(HISTORY)

    def step(state, parameters, action, rng):
        HISTORY.append(1)
        return 1.0, False


class ClearedList(GlobalCounterShown):
    """Right whenever an episode is played from its beginning, wrong when it is resumed from its record."""

    def reset(state, parameters, rng):
        HISTORY.clear()
        state.count = 0

    def step(state, parameters, action, rng):
        state.count += 1
        while len(HISTORY) < state.count:
            HISTORY.append(1)
        return 1.0, state.count > 20


class ClassAttribute(Walk):
    visits = 0

    def observe(state, parameters, observation):
        observation[0] = ClassAttribute.visits
        ClassAttribute.visits += 1


def closing_over():
    seen = []

    class Closure(Walk):
        def step(state, parameters, action, rng):
            seen.append(action)
            return float(len(seen)), False

    return Closure


class ForgetfulReset(Walk):
    def reset(state, parameters, rng):
        state.x = 3
        state.clock = 0.0

    def step(state, parameters, action, rng):
        state.count += 1
        return 1.0, state.count % 7 == 0


class SharedParameters(Walk):
    def step(state, parameters, action, rng):
        parameters.prices[1] += 1.0
        return 1.0, False


@pytest.mark.parametrize(
    ("simulator", "parts"),
    [
        (GlobalGenerator, ["step 0: step gave another result", "it draws from np.random or random; draw every"]),
        (GlobalGeneratorInReset, ["step 0: reset gave another result", "draws from np.random"]),
        (GlobalGeneratorInMask, ["action_mask gave another result", "draws from np.random"]),
        (MaskOfCalls, ["action_mask gave another result", "outside the state record matters (HISTORY?)"]),
        (MaskOfTheClock, ["action_mask gave another result", "something outside the state record matters; keep all"]),
        (OwnGenerator, ["step gave another result", "outside the state record matters (OWN?); keep all"]),
        (GlobalCounter, ["step gave another result", "outside the state record matters (COUNT?)"]),
        (GlobalCounterShown, ["observe gave something else", "outside the state record matters (HISTORY?)"]),
        (ClearedList, ["observe gave something else when the same state was played again", "(HISTORY?)"]),
        (ClassAttribute, ["observe gave another result", "(ClassAttribute?)"]),
        (closing_over(), ["step gave another result", "(seen?)"]),
        (ForgetfulReset, ["reset leaves state.count as the episode before left it", "set it in reset"]),
        (SharedParameters, ["step changed parameters.prices, which all episodes share; keep it in the state"]),
    ],
)
def test_what_is_not_repeatable(simulator, parts):
    HISTORY.clear()
    np.random.seed(3)
    found = message(simulator)
    for part in parts:
        assert part in found
    assert f"of {__file__}" in found


# Not finite, not of the right kind


class NanObservation(Walk):
    def observe(state, parameters, observation):
        observation[1] = np.nan if state.count == 3 else 0.0


class InfiniteObservation(Walk):
    def observe(state, parameters, observation):
        observation[0] = np.inf if state.count == 2 else 0.0


class InfiniteReward(Walk):
    def step(state, parameters, action, rng):
        state.count += 1
        return (np.inf if state.count == 4 else 1.0), False


class InfiniteFeatures(Walk):
    action_feature_size = 1

    def action_features(state, parameters, mask, features):
        features[2, 0] = np.inf if state.count == 2 else 0.0


class FeaturesForbid(InfiniteFeatures):
    def action_features(state, parameters, mask, features):
        mask[2] = False


class NanTime(Walk):
    def time(state, parameters):
        return np.nan if state.count == 2 else 1.0


class TimeBackwards(Walk):
    def time(state, parameters):
        return 5.0 - state.count


class InfiniteControl(Walk):
    def control_variate(state, parameters):
        return -np.inf if state.count == 2 else 1.0


class NanReward(Walk):
    def step(state, parameters, action, rng):
        state.count += 1
        return (np.nan if state.count == 4 else 1.0), False


class RewardText(Walk):
    def step(state, parameters, action, rng):
        return "1", False


class RewardAlone(Walk):
    def step(state, parameters, action, rng):
        return 1.0


class Swapped(Walk):
    def step(state, parameters, action, rng):
        return False, 1.0


class TerminatedNumber(Walk):
    def step(state, parameters, action, rng):
        return 1.0, 0.0


class TruncatedNothing(Walk):
    def truncated(state, parameters):
        pass


class EmptyMask(Walk):
    def action_mask(state, parameters, mask):
        mask[:] = state.count != 2


class WrongMetric(Walk):
    max_steps = 5

    def episode_metrics(state, parameters, metrics):
        metrics.first = 1.0


@pytest.mark.parametrize(
    ("simulator", "part"),
    [
        (NanObservation, "episode 0, step 3: observation[1] is nan; numbers must be finite"),
        (InfiniteObservation, "episode 0, step 2: observation[0] is inf; numbers must be finite"),
        (InfiniteReward, "step 3: step returned the reward inf; return a finite number"),
        (InfiniteFeatures, "step 2: action_features wrote a NaN or an infinite value"),
        (FeaturesForbid, "step 0: action_features changed the mask"),
        (NanTime, "step 1: time returned nan; return a finite number"),
        (TimeBackwards, "step 0: time went back from 5 to 4 in step; let it stand still or grow"),
        (InfiniteControl, "step 1: control_variate returned -inf; return a finite number"),
        (NanReward, "step 3: step returned the reward nan; return a finite number"),
        (RewardText, "step returned the reward '1'; return a finite number"),
        (RewardAlone, "step returned 1.0; return (reward, terminated)"),
        (Swapped, "step returned terminated = 1.0; return (reward, True or False)"),
        (TerminatedNumber, "step returned terminated = 0.0; return (reward, True or False)"),
        (TruncatedNothing, "truncated returned None; return True or False"),
        (EmptyMask, "step 2: action_mask allowed no action; allow at least one"),
        (WrongMetric, "episode_metrics failed in episode 0, step 4: AttributeError"),
    ],
)
def test_what_is_of_the_wrong_kind(simulator, part):
    found = message(simulator)
    assert part in found
    assert f"of {__file__}" in found


# Changes of the state by what only reads


class Observer(Walk):
    def observe(state, parameters, observation):
        state.count += 1


class Masker(Walk):
    def action_mask(state, parameters, mask):
        state.past[1] += 1


class Featurer(InfiniteFeatures):
    def action_features(state, parameters, mask, features):
        state.small = 3


class Truncater(Walk):
    def truncated(state, parameters):
        state.clock += 1.0
        return False


class Timer(Walk):
    def time(state, parameters):
        state.clock += 1.0
        return state.clock


class Measurer(Walk):
    max_steps = 5

    def episode_metrics(state, parameters, metrics):
        state.x += 1


@pytest.mark.parametrize(
    ("simulator", "part"),
    [
        (Observer, "step 0: observe changed state.count; only reset and step may"),
        (Masker, "action_mask changed state.past"),
        (Featurer, "action_features changed state.small"),
        (Truncater, "truncated changed state.clock"),
        (Timer, "time changed state.clock"),
        (Measurer, "step 4: episode_metrics changed state.x"),
    ],
)
def test_what_changes_the_state_by_reading(simulator, part):
    assert part in message(simulator)


# Out of bounds, numbers that do not fit


class LongObservation(Walk):
    def observe(state, parameters, observation):
        observation[2] = 1.0


class LongField(Walk):
    def step(state, parameters, action, rng):
        state.past[state.count] = action
        state.count += 1
        return 1.0, False


@njit(nogil=True)
def remember(past, at, value):
    past[at] = value


class LongFieldInAHelper(Walk):
    def step(state, parameters, action, rng):
        remember(state.past, state.count, action)
        state.count += 1
        return 1.0, False


class NoSuchField(Walk):
    def step(state, parameters, action, rng):
        state.county = 3
        return 1.0, False


class TooLarge(Walk):
    def step(state, parameters, action, rng):
        state.small = 300
        return 1.0, False


class TooLargeNumPy(Walk):
    def step(state, parameters, action, rng):
        state.count += 60
        state.small = state.count  # an int64, which NumPy cuts to its last eight bits without a word
        return 1.0, False


@pytest.mark.parametrize(
    ("simulator", "parts"),
    [
        (LongObservation, ["observe failed in episode 0, step 0: IndexError", "observation[2] = 1.0"]),
        (LongField, ["step failed in episode 0, step 4: IndexError", "state.past[state.count] = action"]),
        (LongFieldInAHelper, ["step failed in episode 0, step 4: IndexError", "remember(state.past, state.count"]),
        (NoSuchField, ["the state record has no field county; state_dtype names x, count", "state.county = 3"]),
        (TooLarge, ["300 does not fit into state.small, which is uint8; use a wider type", "state.small = 300"]),
        (TooLargeNumPy, ["step 4", "300 does not fit into state.small, which is uint8", "state.small = state.count"]),
    ],
)
def test_what_does_not_fit(simulator, parts):
    found = message(simulator)
    for part in parts:
        assert part in found


class ObjectField(Walk):
    state_dtype = np.dtype([("x", np.int64), ("queue", object)])


def test_a_field_of_python_objects_is_refused():
    assert "the field queue holds Python objects" in message(ObjectField)


class FieldSum(Walk):
    metrics_dtype = np.dtype([("sum", np.float64)])


def test_a_field_with_the_name_of_a_method_is_refused():
    assert "FieldSum.metrics_dtype: the field sum has the name of a method" in message(FieldSum)


# Calls that never end


class Endless(Walk):
    def step(state, parameters, action, rng):
        while state.count >= 0:
            state.count += state.x * 0
        return 1.0, False


class EndlessBehindAnExcept(Walk):
    def step(state, parameters, action, rng):
        try:
            while True:
                state.clock += 1.0
        except Exception:
            return 1.0, False


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
@pytest.mark.parametrize("simulator", [Endless, EndlessBehindAnExcept])
def test_a_call_that_never_ends(simulator):
    before = signal.getsignal(signal.SIGALRM)
    found = message(simulator, seconds_per_call=0.2)
    assert f"{simulator.__name__}.step was still running after 0.2 s in episode 0, step 0 (line " in found
    assert "see to it that its loops end" in found
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Slow(Walk):
    def reset(state, parameters, rng):
        state.x = 0
        state.count = 0
        for _ in range(50):
            time.sleep(0.001)  # not for Numba: only the play as ordinary Python is asked for


def test_without_a_main_thread_there_is_no_limit(monkeypatch):
    module = import_module("longstride.simulators.check.check_simulator")  # the package has a function of this name
    monkeypatch.setattr(module, "compile_each", lambda simulator: None)
    with pytest.raises(SimulatorError, match="still running"):
        check_simulator(Slow(), 5, seconds_per_call=0.01)
    found = []
    thread = threading.Thread(target=lambda: found.append(check_simulator(Slow(), 5, seconds_per_call=0.01)))
    thread.start()
    thread.join()
    assert len(found) == 1


# What Numba cannot compile


def helper(x):
    return x + 1


class PlainHelper(Walk):
    def step(state, parameters, action, rng):
        state.x = helper(state.x)
        return 1.0, False


class NoSuchDraw(Walk):
    def step(state, parameters, action, rng):
        state.x = rng.choice(3)
        return 1.0, False


class OneBound(Walk):
    def step(state, parameters, action, rng):
        state.x = rng.integers(3)
        return 1.0, False


class ArrayAsScale(Walk):
    def step(state, parameters, action, rng):
        state.x = rng.exponential(np.ones(1))[0]
        return 1.0, False


class Dictionary(Walk):
    def observe(state, parameters, observation):
        observation[0] = TABLE["one"]


class Text(Walk):
    def step(state, parameters, action, rng):
        return (1.0 if str(dict(a=state.x)) else 0.0), False


class TwoTypes(Walk):
    def step(state, parameters, action, rng):
        what = 1
        if action == 0:
            what = "one"
        return (1.0 if what == 1 else 0.0), False


class UnseenField(Walk):
    def step(state, parameters, action, rng):
        state.count += 1
        if state.count == 1_000:
            state.county = 0
        return 1.0, False


class UnseenGlobal(Walk):
    def step(state, parameters, action, rng):
        global COUNT
        state.count += 1
        if state.count == 1_000:
            COUNT = 3
        return 1.0, False


@njit(nogil=True)
def bad_helper(x):
    return np.random.default_rng(x).integers(3)


class BadHelper(Walk):
    def step(state, parameters, action, rng):
        state.count += 1
        if state.count == 1_000:
            state.x = bad_helper(state.x)
        return 1.0, False


class WholeArray(Walk):
    def step(state, parameters, action, rng):
        state.count += 1
        state.past = np.zeros(4, np.int64)
        return 1.0, False


class WholeArrayOfANumber(Walk):
    def step(state, parameters, action, rng):
        if state.past[0] == 0 and action == 2:
            state.past = 1
        return 1.0, False


class Copied(Walk):
    def step(state, parameters, action, rng):
        np.copyto(state.past, state.past[::-1].copy())
        return 1.0, False


class Listed(Walk):
    def step(state, parameters, action, rng):
        return float(state.past.tolist()[0]), False


class IndexedByAList(Walk):
    def step(state, parameters, action, rng):
        return float(state.past[[0, 2]].sum()), False


class BadHeuristic(Walk):
    def heuristic(state, parameters, mask, rng):
        return int(rng.choice(2))

    heuristics = {"pick": heuristic}  # noqa: RUF012


@pytest.mark.parametrize(
    ("simulator", "function", "line", "reason"),
    [
        (
            PlainHelper,
            "step",
            "state.x = helper(state.x)",
            "helper is an ordinary Python function; decorate it with @nu",
        ),
        (NoSuchDraw, "step", "state.x = rng.choice(3)", "rng.choice does not exist in compiled code; use rng.random"),
        (
            OneBound,
            "step",
            "state.x = rng.integers(3)",
            "rng.integers needs both bounds in compiled code, as in rng.int",
        ),
        (
            ArrayAsScale,
            "step",
            "state.x = rng.exponential(np.ones(1))[0]",
            "rng.exponential does not take these arguments in compiled c",
        ),
        (Dictionary, "observe", 'observation[0] = TABLE["one"]', "TABLE (dict) cannot be used in compiled code; pass"),
        (Text, "step", "return (1.0 if str(dict(a=state.x)) else 0.0), False", "dict does not take these arguments"),
        (TwoTypes, "step", "return (1.0 if what == 1 else 0.0)", "what is int in one place and str in another"),
        (UnseenField, "step", "state.county = 0", "there is no field county in the record; add it to state_dtype"),
        (UnseenGlobal, "step", "", "it sets a global; keep what changes in the state record"),
        (BadHelper, "step", "return np.random.default_rng(x).integers(3)", ""),
        (WholeArray, "step", "state.past = np.zeros(4, np.int64)", "is an array; fill it with state.past[:] = ..."),
        (WholeArrayOfANumber, "step", "state.past = 1", "state.past is an array; fill it with state.past[:] = ..."),
        (Copied, "step", "np.copyto(state.past, state.past[::-1].copy())", "np.copyto does not exist in compiled code"),
        (Listed, "step", "return float(state.past.tolist()[0])", "arrays have no tolist in compiled code"),
        (IndexedByAList, "step", "return float(state.past[[0, 2]].sum())", "write np.array([...]) instead of [...]"),
        (BadHeuristic, "heuristics['pick']", "return int(rng.choice(2))", "rng.choice does not exist in compiled code"),
    ],
)
def test_what_does_not_compile(simulator, function, line, reason):
    found = message(simulator)
    assert found.startswith(f"Numba cannot compile {simulator.__name__}.{function} (line ")
    assert re.search(rf"line \d+ of {re.escape(__file__)}: ", found)
    assert line in found
    assert reason in found
    assert "numba/core" not in found and "\x1b" not in found


class Flags(Walk):
    state_dtype = np.dtype([*Walk.state_dtype.descr, ("seen", np.bool_, (2, 3))])

    def reset(state, parameters, rng):
        state.x, state.count, state.past[:], state.seen[:] = rng.integers(0, 4), 0, 0, False


class FlagsInParameters(Walk):
    parameters = np.rec.array(np.zeros(1, [("open", np.bool_, 5)]))[0]


@pytest.mark.parametrize(
    ("simulator", "field", "remedy"),
    [
        (Flags, "state_dtype: the field seen", ("seen", np.int8, (2, 3))),
        (FlagsInParameters, "parameters: the field open", ("open", np.int8, (5,))),
    ],
)
def test_an_array_of_booleans_has_a_remedy_that_compiles(simulator, field, remedy):
    found = message(simulator)
    assert f"{simulator.__name__}.{field} is an array of booleans" in found
    assert str(remedy).replace("<class 'numpy.int8'>", "np.int8") in found
    if simulator is Flags:
        mended = type("Mended", (Flags,), {"state_dtype": np.dtype([*Walk.state_dtype.descr, remedy])})
        assert hints(mended) == []


class WrongShares(Walk):
    def step(state, parameters, action, rng):
        return float(rng.choice(2, p=parameters.prices[:2])), False


def test_an_error_inside_numpy_has_the_line_of_the_user():
    assert "sum to 1" in (found := message(WrongShares)) and "return float(rng.choice(2, p=param" in found


class Searched(Walk):
    state_dtype = np.dtype([*Walk.state_dtype.descr, ("values", np.float64, (4,))])

    def reset(state, parameters, rng):
        state.x, state.count, state.past[:], state.values[:] = rng.integers(0, 4), 0, 0, 1.0

    def step(state, parameters, action, rng):
        state.count += 1
        return float(len(np.unique(state.values))), False


def test_negative_indices_of_numpy_itself_are_no_hint():
    assert hints(Searched) == []


class Lost(Walk):
    metrics_dtype, main_metric = np.dtype([("customers lost", np.int64)]), "customers lost"

    def episode_metrics(state, parameters, metrics):
        metrics["customers lost"] = state.count


@pytest.mark.parametrize("said", [None, True, False])
def test_a_main_metric_with_the_name_of_a_cost_should_say_what_is_better(said):
    found = hints(Lost if said is None else type("Said", (Lost,), {"main_metric_lower_is_better": said}))
    assert [hint[:55] for hint in found] == ["Lost.main_metric 'customers lost' counts as better if i"] * (said is None)


def test_compiling_leaves_nothing_to_compile():
    from longstride.simulators.simulator import compile_functions, new_state

    compile_each(Walk())
    functions, states = compile_functions(Walk()), new_state(Walk())
    assert len(functions.reset.signatures) == 1
    functions.reset(states[0], Walk.parameters, np.random.default_rng(1))
    assert len(functions.reset.signatures) == 1


# Hints


class Scales(Walk):
    def observe(state, parameters, observation):
        observation[0] = 1e5 * state.x
        observation[1] = 1e-3 * state.count


class Large(Walk):
    def observe(state, parameters, observation):
        observation[0] = 3e7 + state.x


class Unending(Walk):
    max_steps = 1_000_000_000

    def step(state, parameters, action, rng):
        state.x = rng.integers(0, 9)
        return 1.0, False


class NegativeIndex(Walk):
    def action_mask(state, parameters, mask):
        mask[state.x % 3 - 1] = True
        mask[-1] = True  # meant


class NegativeField(Walk):
    def step(state, parameters, action, rng):
        state.count += 1
        state.past[action - 1] = 1
        return 1.0, False


class Fraction(Walk):
    def step(state, parameters, action, rng):
        state.x = min(0.75 * action, 8)
        return 1.0, False


class ShortArithmetic(Walk):
    def step(state, parameters, action, rng):
        state.small += np.uint8(200)
        return 1.0, False


class Price(Walk):
    action_space = Box([-1.0, 0.0], [1.0, np.inf])
    action_mask = None

    def step(state, parameters, action, rng):
        return action[1] * rng.random(), False


class Compared(Walk):
    action_space = Box([0.0], [1.0])
    action_mask = None

    def step(state, parameters, action, rng):
        return (1.0 if action[0] == 0.1 else 0.0), False


class Unfilled(Walk):
    metrics_dtype = np.dtype([("average", np.float64), ("longest", np.float64), ("steps", np.int64)])

    def step(state, parameters, action, rng):
        state.count += 1
        return 1.0, state.count == 20

    def episode_metrics(state, parameters, metrics):
        metrics.longest = np.sqrt(-1.0) if state.count < 0 else 1.0


@pytest.mark.parametrize(
    ("simulator", "parts"),
    [
        (Unfilled, ["episode_metrics gave no finite number to average, steps in any episode that was played"]),
        (
            Scales,
            ["observe writes very different scales: the standard deviation is ", " at 0 and ", "NORMALISE_OBSERV"],
        ),
        (Large, ["observe wrote 3e+07 at 0; float32 keeps seven digits"]),
        (Unending, ["ended no episode in 200 steps and max_steps is 1,000,000,000", "lower max_steps"]),
        (NegativeIndex, ["mask was read or written at -", "mask[state.x % 3 - 1] = True", "say so with % len"]),
        (NegativeField, ["state.past was read or written at -1 (line", "state.past[action - 1] = 1"]),
        (Fraction, ["was written into state.x, which keeps ", "state.x = min(0.75 * action, 8)", "write int(...)"]),
        (ShortArithmetic, ["Arithmetic overflowed (line ", "state.small += np.uint8(200)", "with 64 bits"]),
        (Price, ["action_space has no bounds on both sides at 1: an untrained policy tries numbers around 0, "]),
        (Compared, ["step asks whether the action equals a fraction (line ", "compare with < and >"]),
    ],
)
def test_hints(simulator, parts):
    (hint,) = hints(simulator)
    for part in parts:
        assert part in hint
