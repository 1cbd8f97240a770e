"""What the compiled kernels can compute, and what a plan makes of the rest."""

from dataclasses import replace
from typing import NamedTuple

import pytest

pytest.importorskip("pydantic")

from helpers.setups import set_up
from helpers.specs import mlp_spec
from helpers.toy_runs import toy_algorithm
from oracles.toy_simulators import Bandit

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.types import Machine
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.steps.cpu_kernels import stepper
from longstride.learning.steps.cpu_kernels.stepper import unsupported
from longstride.policies.families.mingru.family import MINGRU
from longstride.training.assembly import plan as build_plan
from longstride.training.assembly.plan import plan_run

SPEC = mlp_spec((4, 8, 2), (4, 8, 1))
HOST = Machine(2, 2, 8 * 10**9, 4 * 10**9, gpu_note="no GPU")


class Penalised(NamedTuple):
    """Coefficients with one that the kernels do not know."""

    clip_range: float = 0.2
    logit_penalty: float = 0.0


def test_ppo_with_the_coefficients_that_are_known_is_for_the_kernels():
    assert set(PpoCoefficients._fields) >= stepper._KNOWN
    assert unsupported(SPEC, toy_algorithm(), [PpoCoefficients(0.2, 0.1, 0.5)]) == ""


def test_a_coefficient_that_is_not_known_must_be_0_all_the_time():
    assert unsupported(SPEC, toy_algorithm(), [Penalised(), Penalised()]) == ""
    problem = unsupported(SPEC, toy_algorithm(), [Penalised(), Penalised(logit_penalty=0.1)])
    assert problem == "compiled kernels do not compute the loss term of LOGIT_PENALTY"


def test_another_family_or_algorithm_is_not_for_the_kernels():
    recurrent = replace(SPEC, family=MINGRU)
    problem = unsupported(recurrent, toy_algorithm(), [])
    assert problem == "compiled kernels are for multilayer perceptrons, not for mingru"
    assert unsupported(SPEC, object(), []) == "compiled kernels compute the losses of PPO and GRPO, not of object"


def test_a_plan_takes_torch_in_their_place_and_says_why(monkeypatch):
    assert plan_run(set_up(Config(), Bandit()), HOST).update_execution == "numba"
    monkeypatch.setattr(build_plan, "unsupported", lambda *_: "compiled kernels do not compute this")
    plan = plan_run(set_up(Config(), Bandit()), HOST)
    assert (plan.update_execution, plan.executions) == ("eager", ("eager",))
    assert "update execution eager: compiled kernels do not compute this" in plan.lines()
    with pytest.raises(UserError, match="UPDATE_EXECUTION is numba, but compiled kernels do not compute this; set"):
        plan_run(set_up(Config(update_execution="numba"), Bandit()), HOST)
