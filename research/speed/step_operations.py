"""Every launch of a GPU's minibatch step in order, and their number by group: torch's operations, or Triton's kernels.

It is counted on the CPU on the loan desk's default networks (two features of each action). With ``--triton`` each of
Triton's kernels counts in place of the operations that it replaces. An operation of torch may run more than one kernel.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from benchmarks.executions import DESK_WITH_FEATURES
from longstride.learning.step_costs.count import _counted
from longstride.learning.step_costs.counter import OperationCounter
from longstride.learning.step_costs.samples import new_samples, new_stepper, sizes_for
from longstride.policies.card_spec import card_spec

GROUPS = {
    ("step_parameters.py", "refresh"): "copy of the parameters",
    ("choose.py", "gather"): "gather of the observations",
    ("mlp_gradient.py", "forward"): "forward",
    ("one_choice.py", "figures_of"): "loss and slopes",
    ("one_choice.py", "_report"): "report",
    ("torch_step.py", "_figures_of"): "report",
    ("mlp_gradient.py", "backward"): "backward",
    ("mlp_gradient.py", "back"): "placement of the gradient",
    ("clipped_adam.py", "step_of_all"): "norms, clipping, Adam",
}
"""Groups by the innermost function of a file that is listed."""


class Listed(OperationCounter):
    """Counts operations and writes down group, name and shape of each.

    Attributes:
        lines: group and text of each launch.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lines: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and write it down."""
        before = len(self.operations)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if len(self.operations) > before:  # of operations that a kernel has replaced since, its launches keep the first
            group, kernel = _origin(sys._getframe(1))
            shape = tuple(getattr(result, "shape", ()))
            self.lines[before:] = [(group, kernel or f"{func._overloadpacket.__name__} {list(shape)}")]
        return result


def _origin(frame: FrameType | None) -> tuple[str, str]:
    """Return the group of what is called in a frame, and the kernel that it stands for."""
    group = part = kernel = ""
    while frame is not None:
        file, name = frame.f_code.co_filename.rsplit("/", 1)[-1], frame.f_code.co_name
        group = group or GROUPS.get((file, name), "")
        if file == "mlp_gradient.py":
            part = part or frame.f_locals.get("part", "")
        if (file, name) == ("counter.py", "counted"):
            kernel = f"Triton kernel in place of {frame.f_locals['function'].__name__}"
        frame = frame.f_back
    is_of_a_part = group in ("forward", "backward", "placement of the gradient")
    return f"{group}, {part}" if is_of_a_part else group or "other", kernel


def launches(half: bool, triton: bool) -> list[tuple[str, str]]:
    """Return group and text of each launch of a step."""
    spec = card_spec(DESK_WITH_FEATURES)
    sizes = sizes_for(spec, spec.chunk)
    indices, weights = torch.arange(sizes.units, device=sizes.device), torch.zeros(sizes.units, device=sizes.device)
    stepper, given = new_stepper(spec, sizes, half, False, on_card=True), (new_samples(spec, sizes), indices, weights)
    stepper.step(*given)  # makes what is kept
    with Listed(sizes.rows, half, sizes.listed) as counter:
        stepper.kernels = _counted(counter) if triton else stepper.kernels
        stepper.step(*given)
    return counter.lines[: len(counter.operations)]


def main() -> None:
    """Print launches and groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--triton", action="store_true", help="Triton's kernels in place of operations of torch")
    options = parser.parse_args()
    found = launches(options.precision == "bf16", options.triton)
    for number, (group, text) in enumerate(found, 1):
        print(f"{number:4} {group:36} {text}")
    print("\n| group | launches |\n|---|---|")
    for group, count in Counter(group for group, _ in found).items():
        print(f"| {group} | {count} |")
    print(f"| all | {len(found)} |")


if __name__ == "__main__":
    main()
