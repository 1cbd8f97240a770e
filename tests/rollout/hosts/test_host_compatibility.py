"""Hosts that are not alike: other code, another simulator, a file that is not there."""

import pytest

pytest.importorskip("pydantic")

from helpers.player_pools import spec_of
from helpers.toy_runs import SEED, actor_weights, toy_model

from longstride.errors import UserError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.hosts.host_compatibility import code_here, portable_source, require_same_code
from longstride.rollout.hosts.player import Player, order_of

PLAN = RolloutPlan(SEED, 2, 10)
FILE = """
import numpy as np
from oracles.toy_simulators import Shop


class MyShop(Shop):
    pass
"""


def prepared(source, changed=None):
    """Return what a player says to the order of a shop; something changes after it was written."""
    shop, spec = spec_of("shop")
    order = order_of(shop, source, spec, PLAN, 1)
    if changed:
        changed()
    return Player().prepare(order, actor_weights(toy_model("shop")))


def test_a_file_is_named_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = portable_source({"simulator": "shop.py:MyShop", "options": {}})
    assert source == {"simulator": f"{tmp_path / 'shop.py'}:MyShop", "options": {}}
    assert portable_source({"simulator": "cartpole"}) == {"simulator": "cartpole"}


def test_another_file_is_refused_before_it_runs(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(FILE)
    source = {"simulator": f"{file}:MyShop", "options": {}}
    ran = tmp_path / "ran"
    said = prepared(source, lambda: file.write_text(f"open({str(ran)!r}, 'w')\n{FILE}"))
    assert said == "its simulator file differs; put the same file at the same path on every host"
    assert not ran.exists()
    assert "there is no simulator file" in prepared(source, file.unlink)


def test_another_simulator_is_refused():
    assert "its simulator is another one" in prepared({"simulator": "oracles.toy_simulators:Bandit"})


def test_a_class_of_the_program_itself_is_refused():
    with pytest.raises(UserError, match="Shop is defined in the program itself, which hosts cannot import"):
        portable_source({"simulator": "__main__:Shop"})


@pytest.mark.parametrize("name", ["Longstride", "Python", "NumPy", "Numba", "llvmlite"])
def test_other_versions_are_refused(name):
    here = code_here()
    assert require_same_code("b", here, here) == ""
    with pytest.raises(UserError, match=rf"Host b has {name} 0.0, this machine .*; install the same version"):
        require_same_code("b", {**here, name: "0.0"}, here)


def test_another_processor_is_named():
    here = code_here()
    said = require_same_code("b", {**here, "processor": "a slide rule"}, here)
    assert said.startswith("The processor of host b is a slide rule, of this machine ") and "to rounding alone" in said
