"""The forward pass of a half-batch as CUDA would run it, on a card that is not there (helpers/fake_card)."""

import pytest
from helpers.fake_card.processes import needs_a_compiler, on_a_fake_card
from helpers.memory_models import memory_spec
from helpers.toy_runs import toy_model
from helpers.transformer_models import transformer_spec

from longstride.learning.step_costs.count import count_answers

pytestmark = [needs_a_compiler, pytest.mark.slow]
SPECS = {
    "mlp": toy_model("shop").spec,
    "mingru": memory_spec(),
    "mingru of one layer": memory_spec(actor=(16,)),
    "transformer": transformer_spec(),
    "transformer of one block": transformer_spec(layers=1),
    "transformer in BF16": transformer_spec(widths=(32, 24)),
}
CASES = [*SPECS, *(f"{name} captured" for name in SPECS)]


@pytest.fixture(scope="module")
def forwards(tmp_path_factory):
    """Return what the third forward pass of each case did."""
    return on_a_fake_card("helpers.fake_card.forwards", tmp_path_factory.mktemp("fake_card"))


@pytest.mark.parametrize("case", CASES)
def test_the_card_computes_what_the_cpu_does(forwards, case):
    """In BF16 two ways of attention differ by its rounding: keys and values below 4 are up to 0.0156 apart."""
    assert forwards[case]["difference"] < (0.04 if "BF16" in case else 1e-5)
    assert forwards[case]["largest"] > 0.1
    assert forwards[case]["note"] == ""


@pytest.mark.parametrize("case", CASES)
def test_the_host_waits_for_the_outputs_alone(forwards, case):
    """Observations go up, for memory with the beginnings of episodes; the copy of the outputs is the one way down."""
    assert forwards[case]["mixed"] == []
    assert forwards[case]["uploads"] == (1 if case.startswith("mlp") else 2)
    assert forwards[case]["reads"] == ["copy_"]


@pytest.mark.parametrize("case", CASES)
def test_a_half_has_a_stream_of_its_own_that_waits_for_parameters_and_states(forwards, case):
    """Once at first, then only where they were changed or copied on the stream of all other work."""
    assert forwards[case]["own_stream"]
    assert forwards[case]["waited"] == [1, 1, 1, 2, 3, 4], "three turns, then one after each change"
    assert forwards[case]["waited_for"]


@pytest.mark.parametrize("case", CASES)
def test_parameters_and_states_cross_the_bus_in_pinned_memory(forwards, case):
    """Parameters in one copy; large states in a copy for each row, which are apart in a trajectory, others in one."""
    spec = SPECS[case.removesuffix(" captured")]
    loaded, read = forwards[case]["loaded"], forwards[case]["read"]
    assert (loaded["uploads"], loaded["upload_bytes"]) == (1, 4 * spec.layout.actor_size)
    assert len(read["reads"]) == (10 if spec.state_size == max(each.state_size for each in SPECS.values()) else 1)
    assert loaded["pageable_bytes"] == read["pageable_bytes"] == forwards[case]["pageable_bytes"] == 0
    assert forwards[case]["read_difference"] == 0.0


@pytest.mark.parametrize("case", SPECS)
def test_the_plan_counts_the_launches(forwards, case):
    traffic = forwards[case]
    operations = sum(traffic["launches"].values()) + traffic["uploads"] + len(traffic["reads"])
    in_bf16 = case.endswith("BF16")
    attention = traffic["launches"].get("_safe_softmax", 0)  # on this card it is seven operations, eleven in BF16
    further = (10 if in_bf16 else 6) * attention
    assert operations - further == count_answers(SPECS[case], in_bf16).launches
