"""The GPU table: names that resolve, names that do not, tiers, what is usual on a card."""

import pytest

from longstride.errors import UserError
from longstride.hardware.planning import gpu_catalog
from longstride.hardware.planning.gpu_catalog import (
    CARDS,
    TierDefaults,
    card_of,
    find_card,
    machine_with,
    tier_defaults,
    tier_of,
)
from longstride.hardware.types import Gpu, Machine

BY_NAME = {card.name: card for card in CARDS}


def gpu(name, gigabytes, capability=(8, 0), mig=False):
    return Gpu(name, capability, int(gigabytes * 1e9), int(gigabytes * 1e9), mig=mig)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("A40", "A40"), ("a40", "A40"), ("a100-80gb", "A100 80GB"), ("NVIDIA A100-SXM4-80GB", "A100 80GB")),
        *(
            ("H200", "H200"),
            ("nvidia h200", "H200"),
            ("NVIDIA A100 80GB PCIe", "A100 80GB"),
            ("A100 40 GB", "A100 40GB"),
        ),
        *(("Tesla T4", "T4"), ("4090", "RTX 4090"), ("GeForce RTX 3090", "RTX 3090"), ("rtx-4080", "RTX 4080")),
        *(("Tesla V100-PCIE-32GB", "V100 32GB"), ("V100-16GB", "V100 16GB"), ("NVIDIA H100 80GB HBM3", "H100 SXM")),
        *(("H100", "H100 SXM"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("l40s", "L40S"), ("L4", "L4"), ("B200", "B200")),
    ],
)
def test_names_that_people_and_drivers_use(text, name):
    assert find_card(text) is BY_NAME[name]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("A4O", "A40"), ("H20", "H200"), ("A100-90GB", "A100 80GB"), ("RTX 4909", "RTX 4090"), ("GTX 3090", "RTX 3090")],
)
def test_an_unknown_name_is_refused_with_the_nearest(text, nearest):
    with pytest.raises(UserError, match=f"There is no GPU '{text}' in the catalogue; did you mean {nearest}"):
        find_card(text)


@pytest.mark.parametrize(
    "text", ["", "NVIDIA", "Radeon", "RTX 4090 D", "RTX 3080 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU"]
)
def test_other_models_are_not_taken_for_those_of_the_table(text):
    with pytest.raises(UserError, match=r"There is no GPU .*(\? It|, which) has T4, V100 16GB, "):
        find_card(text)


def test_no_alias_names_two_cards():
    names = [name for card in CARDS for name in gpu_catalog._plain_names(card)]
    assert len(names) == len(set(names)) == len(gpu_catalog._BY_NAME)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_figures_agree_with_what_the_generations_have(card):
    """TF32 runs at half of BF16's rate; both begin at 8.0."""
    assert (card.bf16 is None) == (card.tf32 is None) == (card.capability < (8, 0))
    if card.bf16:
        assert card.bf16 == card.fp16
        assert card.tf32 == pytest.approx(card.bf16 / 2, rel=0.02)
    assert card.fp32 < card.fp16


def test_unconfirmed_figures_and_targets_are_of_cards_in_the_table():
    assert all(getattr(BY_NAME[name], figure) for name, figure in gpu_catalog.UNCONFIRMED)
    for name, (good, excellent) in gpu_catalog.MODEL_FLOPS_UTILISATION.items():
        assert name in BY_NAME
        assert good[0] < good[1] <= excellent[0] < excellent[1] < 100


@pytest.mark.parametrize(
    ("here", "tier"),
    [
        (None, "cpu"),
        (gpu("NVIDIA H200", 141, (9, 0)), "h100"),
        (gpu("NVIDIA B200", 180, (10, 0)), "h100"),
        (gpu("NVIDIA A100-SXM4-40GB", 40), "a100"),
        (gpu("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10, mig=True), "a100"),
        (gpu("NVIDIA A40", 48, (8, 6)), "high"),
        (gpu("anything", 40), "high"),
        (gpu("anything", 39.9), "medium"),
        (gpu("anything", 20), "medium"),
        (gpu("anything", 19.9), "low"),
        (gpu("Tesla T4", 16, (7, 5)), "low"),
    ],
)
def test_tiers(here, tier):
    assert tier_of(here) == tier


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H100 SXM", TierDefaults(2048, 8192, True)),
        ("H200", TierDefaults(2048, 8192, True)),
        ("A100 80GB", TierDefaults(2048, 8192, True)),
        ("A100 40GB", TierDefaults(1024, 4096, True)),
        ("RTX 4090", TierDefaults(1024, 4096, True)),
        ("RTX 3090", TierDefaults(512, 2048, True)),
        *((name, TierDefaults(256, 2048, False)) for name in ("T4", "A30", "A40", "V100 32GB", "RTX 4080", "L40S")),
    ],
)
def test_what_is_usual_on_each_card(name, expected):
    assert tier_defaults(machine_with(find_card(name)).gpu) == expected


def test_memory_tells_models_of_one_name_apart():
    """A driver calls the 12 GB model of the RTX 3080 the same; it says 25.8 GB of a card that is sold as 24 GB."""
    assert card_of(gpu("NVIDIA GeForce RTX 3080", 10.7, (8, 6))) is BY_NAME["RTX 3080"]
    assert card_of(gpu("NVIDIA GeForce RTX 3080", 12.9, (8, 6))) is None
    assert card_of(gpu("NVIDIA A30", 25.8)) is BY_NAME["A30"]
    assert card_of(gpu("NVIDIA H20", 96, (9, 0))) is None


def test_a_slice_has_no_card_even_one_with_all_of_its_memory():
    assert card_of(gpu("NVIDIA A100-SXM4-80GB", 80)) is BY_NAME["A100 80GB"]
    assert card_of(gpu("NVIDIA A100-SXM4-80GB", 80, mig=True)) is None


def test_a_machine_for_a_card_that_is_not_here():
    host = Machine(2, 1, 10**9, 10**8, gpu_note="this torch is a build without CUDA", cores_note="why")
    there = machine_with(find_card("A40"), host)
    assert there.gpu == Gpu("NVIDIA A40", (8, 6), 48 * 10**9, 48 * 10**9, context_bytes=2**29)
    assert there.gpu.usable_bytes == 48 * 10**9 - 2**29
    assert (there.gpu_note, there.usable_cores, there.free_bytes, there.cores_note) == ("", 1, 10**8, "why")
    assert machine_with(find_card("A40")).usable_cores == gpu_catalog.NOMINAL_HOST.usable_cores


def test_a_name_of_several_sizes_is_a_question():
    with pytest.raises(UserError, match=r"There is a GPU a100 of 2 sizes; name one of them: A100 40GB or A100 80GB\."):
        find_card("a100")
