"""The memory of an update beside a policy that plays on the same GPU."""

from types import SimpleNamespace

import pytest

pytest.importorskip("pydantic")

from helpers.random_rollouts import random_model
from helpers.setups import set_up
from helpers.transformer_models import transformer_spec
from oracles.toy_simulators import Shop

from longstride.config import Config
from longstride.hardware.planning.choices import room_for_samples
from longstride.hardware.planning.gpu_catalog import find_card, machine_with
from longstride.training.assembly.plan import plan_settings, update_memory

H200 = machine_with(find_card("H200"))


def memory(spec, capability, where, instances=2):
    plan = SimpleNamespace(
        precision="fp32",
        batch_size=64,
        microbatch=64,
        update_threads=1,
        gradient_checkpointing=False,
        collect_on=where,
    )
    return update_memory(spec, plan, SimpleNamespace(capability=capability), 250, instances)


@pytest.mark.parametrize(("capability", "each"), [((9, 0), 1 << 25), ((8, 0), (1 << 23) + (1 << 17))])
def test_a_policy_that_plays_on_the_gpu_has_two_workspaces_and_its_parameters(capability, each):
    spec = random_model("discrete").spec
    learns, plays = (memory(spec, capability, where) for where in ("cpu", "gpu"))
    assert (learns.playing, plays.playing) == (0, 4 * spec.layout.actor_size), "it has no memory"
    assert plays.workspace - learns.workspace == 2 * each
    assert plays.peak - learns.peak == 2 * each + plays.playing


def test_states_are_there_twice_for_all_rows_of_both_halves():
    """Those of the present step, and those with which the rollout began. 20 instances are two halves of 16 rows."""
    spec = transformer_spec()
    found = memory(spec, (9, 0), "gpu", instances=20)
    assert found.playing == 4 * (spec.layout.actor_size + 2 * 32 * spec.state_size)
    assert spec.state_size > 0


@pytest.mark.parametrize("where", ["gpu", "auto", "cpu"])
def test_a_minibatch_has_less_room_beside_a_policy_that_the_user_wants_there(where):
    fixed = {"policy_network": "mingru", "num_envs": 512, "rollout_steps": 64}
    settings, plain = (plan_settings(set_up(Config(collect_on=to, **fixed), Shop())) for to in (where, "cpu"))
    rooms = [room_for_samples(each, H200, H200.gpu, False) for each in (settings, plain)]
    less = settings.collection.card_bytes if where == "gpu" else 0
    assert abs((rooms[1] - rooms[0]) * plain.bytes_per_sample[False] - less) < 2 * plain.bytes_per_sample[False]
    assert settings.collection.card_bytes > 10**6
