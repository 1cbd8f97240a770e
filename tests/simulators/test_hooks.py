"""Hooks of a user's simulator: what is wrong with one is a sentence, and loses no evaluation."""

import pytest

pytest.importorskip("pydantic")

from oracles.toy_simulators import Shop

from longstride.api.compare_policies import closing_lines
from longstride.errors import UserError
from longstride.simulators.hooks import Hooks
from longstride.simulators.validate import require_complete
from longstride.training.evaluation.comparison import verdicts
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.evaluation.table import evaluation_cells


class Noting(Hooks):
    def evaluation_note(self, simulator, records):
        return f"{len(records['fixed'])} episodes."


def lines_of(records):
    shop = Shop()
    shop.hooks = Noting()
    return closing_lines(Evaluation(2, records), shop, with_policy=False)


class Withholding(Hooks):
    def withheld(self, simulator):
        return "No verdict: no reason."


def test_a_verdict_may_be_withheld():
    shop = Shop()
    values = {"trained": (1.0, 2.0), next(iter(shop.heuristics)): (3.0, 4.1)}
    result = Evaluation(2, {name: [{shop.main_metric: value} for value in of] for name, of in values.items()})
    assert verdicts(result, shop).keys() == {"trained"}
    shop.hooks = Withholding()
    assert closing_lines(result, shop) == ["No verdict: no reason."]
    assert verdicts(result, shop) == {}
    assert not any("against" in header for header in evaluation_cells(result, shop).headers)


def test_a_note_is_below_the_table():
    assert lines_of({"fixed": [{"return": 1.0}, {"return": 2.0}]})[0] == "2 episodes."


def test_a_note_that_fails_is_a_line():
    line = lines_of({})[0]
    assert line.startswith(f"Shop.hooks.evaluation_note raised KeyError: 'fixed' (line 20 of {__file__}: return f")
    assert line.endswith("; correct it, or remove it.")


def test_hooks_are_an_object_that_extends_the_defaults():
    shop = Shop()
    shop.hooks = None
    with pytest.raises(UserError, match=r"Shop\.hooks must be an object of a class that extends longstride\."):
        require_complete(shop)
