"""What the operations of a step read and write, counted while they run on the CPU."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

VIEWS = {
    *("detach", "t", "view", "unsqueeze", "expand", "select", "split", "split_with_sizes", "squeeze", "slice"),
    *("unbind", "_unsafe_view", "alias", "transpose", "permute", "reshape", "lift_fresh", "as_strided"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
}
WRITTEN = {"_fused_adam_": (0, 2, 3), "_foreach_copy_": (0,)}
"""Arguments that operations without a result write."""

RESULTS = {"out", "grad_input"}
"""Names of arguments that are written and not read."""

COPIES = {"copy_", "_foreach_copy_"}
"""Operations that write their first argument without reading it."""


class CountedWork(TorchDispatchMode):
    """Counts operations that are no views, and the bytes of their tensors.

    Attributes:
        launches: operations.
        traffic: bytes of their arguments and results.
    """

    def __init__(self):
        super().__init__()
        self.launches = self.traffic = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if name in VIEWS or "profiler" in str(func):
            return result
        self.launches += 1
        read = {place: value for place, value in (kwargs or {}).items() if place not in RESULTS}
        arguments = args[1:] if name in COPIES else (args, read)
        read = {id(x): x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor)}.values()
        written = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        written += [x for i in WRITTEN.get(name, ()) for x in args[i]]
        read = written if name == "index_select" else read  # of the rollout only the rows that it wants
        self.traffic += sum(x.numel() * x.element_size() for x in (*read, *written))
        return result
