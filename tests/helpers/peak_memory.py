"""Peak of the bytes that torch operations hold on the CPU."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakBytes(TorchDispatchMode):
    """Counts the storages that operations return while they live.

    Attributes:
        peak: most bytes alive at once, without those that were there before.
    """

    def __init__(self, *known: torch.Tensor) -> None:
        super().__init__()
        self._seen = {tensor.untyped_storage()._cdata for tensor in known}
        self._alive = 0
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self._alive += size
        self.peak = max(self.peak, self._alive)
        weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._alive -= size
