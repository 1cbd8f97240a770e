"""CUDA graphs played on the CPU: what a function launches is recorded, and replayed on the very same tensors."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WARM_UPS = 3


class Recorder(TorchDispatchMode):
    """Records operations with their tensors."""

    def __init__(self):
        super().__init__()
        self.launches = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.launches.append((func, args, kwargs or {}, result))
        return result


class RecordedGraphs:
    """Captures like CUDA: nothing of the Python code runs in a replay, numbers are frozen, tensors lie where they lay.

    Attributes:
        captured: graphs so far.
        replays: of all of them.
    """

    def __init__(self):
        self.captured = self.replays = 0

    def capture(self, function):
        for _ in range(WARM_UPS):
            function()
        with Recorder() as recorder:
            function()
        self.captured += 1
        return lambda: self._replay(recorder.launches)

    @torch.no_grad()
    def _replay(self, launches):
        self.replays += 1
        for func, args, kwargs, results in launches:
            for old, new in zip(tree_leaves(results), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and address_of(old) != address_of(new):  # else a view, or in place
                    old.copy_(new)


def address_of(tensor):
    """Return where the memory of a tensor lies, whatever part of it is seen."""
    return tensor.untyped_storage().data_ptr()
