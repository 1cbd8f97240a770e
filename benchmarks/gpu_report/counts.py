"""Launches, products and bytes of a step, counted on the CPU, and the time of the captured step that they predict."""

from benchmarks.executions import DESK_WITH_FEATURES
from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.roofline import card_seconds
from longstride.hardware.types import Execution, Precision
from longstride.learning.step_costs.work import step_work

CASES = {"the guide's case": 31_000, "the loan desk's defaults": 1_024}
"""Samples of a minibatch."""

WAYS: dict[str, tuple[Execution, bool, bool]] = {  # whether on a card, whether with Triton
    "autograd, rows as they are": ("eager", False, False),
    "as on a GPU": ("eager", True, False),
    "with Triton kernels, counted by replacement": ("eager", True, True),
    "torch.compile": ("torch_compile", True, False),
}
"""Ways of a step. Triton needs a GPU: there, each of its kernels counts in place of the operations that it replaces."""

CARDS = ("H200", "H100")


def measure(task: Task) -> Figures:
    """Return a row for each minibatch, precision and way of its steps."""
    formats: tuple[Precision, ...] = ("bf16", "fp32")
    rows = [_row(case, precision, way) for case in CASES for precision in formats for way in WAYS]
    return {"rows": rows, "problem": ""}


def _row(case: str, precision: Precision, way: str) -> Figures:
    samples, (execution, *how) = CASES[case], WAYS[way]
    on_card, triton = how
    half = precision != "fp32"
    work = step_work(DESK_WITH_FEATURES, half, samples, samples, execution, on_card=on_card, triton=triton)
    return {
        **{"case": case, "samples": samples, "precision": precision, "way": way, "launches": work.launches},
        "products": round(sum(times for times, need in work.operations if need.flops or need.wide_flops)),
        "bytes": work.traffic,
        "ms": {name: 1e3 * card_seconds(work.operations, find_card(name), precision, True) for name in CARDS},
    }


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    rows = [
        (
            *(f"{row['case']}, {row['samples']:,}", row["precision"].upper(), row["way"], row["launches"]),
            *(row["products"], f"{row['bytes'] / 1e9:.3f}", *(f"{ms:.3f}" for ms in row["ms"].values())),
        )
        for row in figures["rows"]
    ]
    head = "minibatch", "precision", "step", "launches", "products", "GB"
    return table((*head, *(f"ms captured, {name} (predicted)" for name in CARDS)), rows)
