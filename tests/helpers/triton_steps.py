"""``python -m helpers.triton_steps`` prints the launches of a step with Triton's kernels, and its distance to torch's.

The kernels are interpreted, and a process of its own, as in ``triton_losses.py``.
"""

import json
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
from helpers.counted_work import CountedWork
from helpers.real_steps import prepared_step
from learning.step_costs.test_work import SHAPES
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.interpreter import GridExecutor

from longstride.learning.steps import triton_adam
from longstride.learning.steps.loss_slopes import choose, triton_choice, triton_gather

KERNELS = choose.Kernels(triton_choice.figures_of, triton_gather.gather, triton_adam.step_of_all)
launched = []


def watch_launches():
    """Write down the kernels that are launched; what the interpreter does for one is not counted."""
    interpret = GridExecutor.__call__

    def launch(self, *arguments, **others):
        launched.append(self.fn.__name__)
        with _disable_current_modes():
            return interpret(self, *arguments, **others)

    GridExecutor.__call__ = launch


def stepped(precision, kernels):
    """Return launches, and what the second step leaves."""
    torch.manual_seed(0)
    stepper, *arguments = prepared_step(SHAPES["desk"], precision, 64, 64, on_card=True)
    stepper.kernels = kernels
    stepper.step(*arguments)
    launched.clear()
    with CountedWork() as work:
        report = stepper.step(*arguments)
    return work.launches + len(launched), [report, stepper.model.flat.detach(), *stepper._state()]


def main():
    """Print launches and difference by precision."""
    watch_launches()
    triton_adam._PROGRAMS = 4  # the interpreter takes one after another
    found = {}
    for precision in ("fp32", "bf16"):
        _, expected = stepped(precision, choose.Kernels())
        launches, tensors = stepped(precision, KERNELS)
        differs = (float((a - b).abs().max() / b.abs().max()) for a, b in zip(tensors, expected, strict=True))
        found[precision] = {"launches": launches, "kernels": [*launched], "difference": max(differs)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
