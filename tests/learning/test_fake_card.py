"""The update as CUDA would run it, on a card that is not there (helpers/fake_card), whose numbers a CPU computes."""

import pytest
from helpers.fake_card.processes import needs_a_compiler, on_a_fake_card

pytestmark = [needs_a_compiler, pytest.mark.slow]

SPACES, PRECISIONS = ("discrete", "choices", "gaussian", "squashed"), ("fp32", "bf16", "fp16")
LAUNCHES = {
    **{"discrete fp32": 92, "discrete bf16": 99, "discrete fp16": 120},
    **{"choices fp32": 180, "choices bf16": 188, "choices fp16": 206},
    **{"gaussian fp32": 133, "gaussian bf16": 141, "gaussian fp16": 159},
    **{"squashed fp32": 168, "squashed bf16": 176, "squashed fp16": 194},
    **{"desk fp32": 99, "desk bf16": 105, "desk fp16": 126},
    **{f"discrete {kind} in microbatches": n for kind, n in (("fp32", 264), ("bf16", 283), ("fp16", 314))},
    **{f"choices {kind} in microbatches": n for kind, n in (("fp32", 528), ("bf16", 550), ("fp16", 572))},
    **{f"gaussian {kind} in microbatches": n for kind, n in (("fp32", 387), ("bf16", 409), ("fp16", 431))},
    **{f"squashed {kind} in microbatches": n for kind, n in (("fp32", 492), ("bf16", 514), ("fp16", 536))},
    "discrete fp32 with checkpointing": 101,
    **{"memory fp32": 547, "memory bf16": 567, "memory fp16": 585, "memory fp32 in microbatches": 1630},
}
"""Most launches of an eager step, as recorded; what is more must be worth it. docs/explanation/update-steps.md has the
table."""

CAPTURED = [f"{space} {precision} captured" for space in SPACES for precision in PRECISIONS]
OTHERS = [
    *("discrete fp32 with a KL limit", "discrete fp32 with noise", "groups of 2", "penalised"),
    "squashed bf16 captured in microbatches",
    "memory bf16 captured",
]
CASES = [*LAUNCHES, *CAPTURED, *OTHERS]


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    """Return what the second update of each case did."""
    return on_a_fake_card("helpers.fake_card", tmp_path_factory.mktemp("fake_card"))


def test_every_case_is_tested(updates):
    assert sorted(updates) == sorted(CASES)


@pytest.mark.parametrize("case", CASES)
def test_the_card_computes_what_the_cpu_does(updates, case):
    """Number formats are the same on both, so only a capture's slots and the order of sums may differ.

    A scan over the steps of a chunk has another order on the CPU, which half precision enlarges. The CPU's steps
    differentiate by autograd, which rounds in another order, and the gradients of biases to half precision; Adam's
    first steps make much of gradients near 0. So gradients are compared in test_mlp_gradient.py.
    """
    in_half = "bf16" in case or "fp16" in case or case in ("penalised", "groups of 2")
    largest = 2e-3 if in_half and not case.startswith(("choices", "gaussian", "squashed")) else 1e-5
    assert updates[case]["difference"] < largest
    assert updates[case]["report"]["skipped_steps"] == 0
    assert updates[case]["report"]["model_transfers"] == 2
    assert updates[case]["moved"] > 1e-4


@pytest.mark.parametrize("case", CASES)
def test_nothing_in_the_epochs_touches_the_host(updates, case):
    """The indices of each epoch go up, and the reports of all steps come down at the end."""
    epochs, count = updates[case]["phases"]["epochs"], updates[case]["report"]["epochs"]
    assert epochs["mixed"] == []
    each = 2 if case.startswith("memory") else 1  # the weights of chunks follow their lengths
    assert epochs["uploads"] == each * count, "the weights of minibatches lie on the card already"
    limited = ["_local_scalar_dense"] * (count - 1) if case == "discrete fp32 with a KL limit" else []
    assert epochs["reads"] == [*limited, "_to_copy"]


@pytest.mark.parametrize("case", LAUNCHES)
def test_a_step_has_no_more_launches_than_recorded(updates, case):
    launches = sum(updates[case]["phases"]["epochs"]["launches"].values())
    assert launches / updates[case]["report"]["optimizer_steps"] <= LAUNCHES[case] + 1


@pytest.mark.parametrize("case", CASES)
def test_heads_and_loss_are_in_float32(updates, case):
    assert {line.split()[1] for line in updates[case]["formats"]} == {"torch.float32"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_products_of_hidden_layers_are_in_the_planned_format(updates, precision):
    expected = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}[precision]
    products = updates[f"desk {precision}"]["phases"]["epochs"]["products"]
    assert {kind for kind, rows in products if rows in (152, 128, 256) and kind != "torch.float32"} == (
        set() if precision == "fp32" else {expected}
    )


def test_rows_of_observations_in_half_precision_are_filled_up_for_aligned_products(updates):
    """151 numbers are 302 bytes, which are no multiple of 16."""
    of_the_first_layer = {rows for kind, rows in updates["desk bf16"]["phases"]["epochs"]["products"]}
    assert 152 in of_the_first_layer
    assert 151 not in of_the_first_layer


@pytest.mark.parametrize("case", CASES)
def test_what_crosses_the_bus_does_so_in_pinned_memory(updates, case):
    """But for a few numbers of each step at the end, the places of chunks, and the log-probabilities of a penalty."""
    prepare, epochs = (updates[case]["phases"][phase]["pageable_bytes"] for phase in ("prepare", "epochs"))
    assert epochs <= 16 * 4 * updates[case]["report"]["optimizer_steps"]
    of_a_sample = 40 if case.startswith("memory") else 4 if case == "penalised" else 0
    assert prepare <= of_a_sample * 250


@pytest.mark.parametrize("case", CASES)
def test_before_the_epochs_every_column_goes_up_before_the_host_reads(updates, case):
    prepare = updates[case]["phases"]["prepare"]
    assert prepare["mixed"] == []
    assert prepare["uploads_before_first_read"] >= 6 or case == "groups of 2"


@pytest.mark.parametrize("case", CASES)
def test_before_the_epochs_the_host_reads_the_values_alone(updates, case):
    """All of them at once, with the value normalisation; a penalty needs the log-probabilities, too."""
    assert updates[case]["phases"]["prepare"]["reads"] == ["copy_", *["_to_copy"] * (case == "penalised")]


@pytest.mark.parametrize("space", SPACES)
def test_launches_before_the_epochs_do_not_depend_on_the_microbatch(updates, space):
    """The critic's values of 250 samples are computed in one piece, whether a microbatch has 48 samples or 512."""
    whole, pieces = (updates[f"{space} bf16{more}"]["phases"]["prepare"] for more in ("", " in microbatches"))
    assert whole["launches"] == pieces["launches"]
    assert len(whole["products"]) == 2 * 2  # layers of the critic; samples, and observations after the last ones
