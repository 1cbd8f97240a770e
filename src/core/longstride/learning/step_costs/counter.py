"""Counts what torch operations compute, read, write and hold, on the CPU or on tensors without numbers."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop, sdpa_flop

from longstride.hardware.operations import Amount, Cost, Operations

_VIEWS = {
    *("detach", "t", "view", "unsqueeze", "expand", "select", "split", "split_with_sizes", "squeeze", "slice"),
    *("unbind", "_unsafe_view", "alias", "transpose", "permute", "reshape", "lift_fresh", "as_strided"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
}
"""Operations that compute nothing."""

_WRITTEN = {"_fused_adam_": (0, 2, 3), "_foreach_copy_": (0,)}
"""Arguments that operations without a result write."""

_COPIES = {"copy_", "_foreach_copy_"}
"""Operations that write their first argument without reading it."""

_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FLOPS = {
    **flop_registry,
    _ATTENTION: sdpa_flop,
    torch.ops.aten._addmm_activation: flop_registry[torch.ops.aten.addmm],
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: sdpa_backward_flop,
}
"""Torch's formulas for products of matrices; it does not list its attention on the CPU."""


_RESULTS = {"out", "grad_input"}
"""Names of arguments that operations write and do not read."""


class Operation(NamedTuple):
    """An operation that is no view."""

    flops: Amount | None  # floating-point operations of a product of matrices, or of attention; None of others
    is_wide: bool  # whether it computes in float32 although the planned precision is less
    joins: bool  # whether it puts tensors together
    reads: dict[int, Amount]  # bytes by the number of the storage
    writes: dict[int, Amount]


def total(operations: Iterable[Operation]) -> Operations:
    """Return what operations cost one by one."""
    return Operations.of(cost_of(each, (*each.reads.values(), *each.writes.values())) for each in operations)


def cost_of(operation: Operation, sizes: Iterable[Amount]) -> Cost:
    """Return the cost of an operation that reads and writes some bytes."""
    flops = operation.flops or Amount()
    both = (Amount(), flops) if operation.is_wide else (flops, Amount())
    return Cost(*both, total_of(sizes))


def total_of(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts."""
    known = list(amounts)
    return Amount(sum(each.per_row for each in known), sum(each.fixed for each in known))


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that are no views.

    Sizes that are a prime tell what grows with the rows of a minibatch: only that is a multiple of them.

    Args:
        factors: rows of the minibatch, or parts of one, for each unit of such a size.
        half: whether products run in half precision.
        listed: the size that stands for the number of feasible actions in all lists.

    Attributes:
        operations: all operations.
        alive: bytes alive at all moments at which there may be most, without tensors that were there before.
    """

    def __init__(self, factors: Mapping[int, float], half: bool, listed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._factors, self._half, self._listed = dict(factors), half, listed
        self._numbers: dict[int, int] = {}
        self._next, self._now = count(), Amount()
        self.operations: list[Operation] = []
        self.alive: set[Amount] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: torch would import its compiler, which takes a second, only to keep it off this class."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        packet, kwargs = func._overloadpacket, kwargs or {}
        name = packet.__name__
        given = _tensors((args, [value for place, value in kwargs.items() if place not in _RESULTS]))
        for x in given:
            self._number(x)
        result = self._run(func, name, args, kwargs)
        written = _tensors((result,))
        for x in written:
            self._hold(x)
        if name in _VIEWS or func.namespace == "profiler" or _is_upload(name, given, written):
            return result
        written += [x for place in _WRITTEN.get(name, ()) for x in args[place]]
        if name == "index_select":  # reads only the chosen rows
            given = written
        elif name == "scatter_":  # writes only the chosen places
            given = written = _tensors(args[3:])
        elif name in _COPIES:
            given = _tensors((args[1:],))
        flops = self._amount(_FLOPS[packet](*args, **kwargs, out_val=result)) if packet in _FLOPS else None
        is_wide = self._half and bool(written) and written[0].dtype == torch.float32
        sizes = self._bytes(given), self._bytes(written)
        self.operations.append(Operation(flops, is_wide, name == "cat", *sizes))
        return result

    def in_kernels(self, function: Callable[..., Any], launches: int) -> Callable[..., Any]:
        """Return a function whose operations count as the launches of a kernel that stands for them.

        The first launch reads what was there before it and writes what stays; the others add up a few numbers.
        """

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            begin = len(self.operations)
            result = function(*args, **kwargs)
            replaced, reads, writes = self.operations[begin:], dict[int, Amount](), dict[int, Amount]()
            for each in replaced:
                reads |= {number: size for number, size in each.reads.items() if number not in writes}
                writes |= each.writes
            there = set(self._numbers.values())
            kept = {number: size for number, size in writes.items() if number in there}
            first = Operation(None, any(each.is_wide for each in replaced), False, reads, kept)
            self.operations[begin:] = [first, *[Operation(None, False, False, {}, {})] * (launches - 1)]
            return result

        return counted

    def _run(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return the result of an operation; two do not run without numbers."""
        if name == "_fused_adam_":
            return None
        if name == "repeat_interleave":  # the observation that each feasible action belongs to
            return args[0].new_empty(self._listed)
        return func(*args, **kwargs)

    def _bytes(self, tensors: Iterable[Tensor]) -> dict[int, Amount]:
        """Return the bytes of different tensors by their storages."""
        found: dict[int, Amount] = {}
        for x in {id(x): x for x in tensors}.values():
            number = self._number(x)
            found[number] = found.get(number, Amount()).plus(self._amount(x.numel() * x.element_size()))
        return found

    def _amount(self, number: int) -> Amount:
        """Return a number as one that grows with the rows, or does not."""
        for size, rows in self._factors.items():
            if number and number % size == 0:
                return Amount(number / size * rows, 0)
        return Amount(0.0, number)

    def _number(self, x: Tensor, held: Amount | None = None) -> int:
        """Return the number of a tensor's storage, until it is freed: a new one may get its address.

        The bytes that are ``held`` for the storage are then subtracted.
        """
        storage = x.untyped_storage()
        key = storage._cdata
        if key not in self._numbers:
            self._numbers[key] = next(self._next)
            weakref.finalize(storage, self._release, key, held or Amount())
        return self._numbers[key]

    def _hold(self, x: Tensor) -> None:
        """Count a storage, if it is new, as long as it lives."""
        storage = x.untyped_storage()
        if storage._cdata in self._numbers:
            return
        size = self._amount(storage.nbytes())
        self._number(x, size)
        self._now = self._now.plus(size)
        self.alive.add(self._now)

    def _release(self, key: int, size: Amount) -> None:
        del self._numbers[key]
        self._now = self._now.plus(size, -1)


def _is_upload(name: str, given: list[Tensor], written: list[Tensor]) -> bool:
    """Return whether a tensor is copied from the host: a table, once, which no other step does again."""
    return name == "_to_copy" and given[0].device != written[0].device


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """Return all tensors in some values and in their sequences."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple) or type(value).__name__ == "dict_values":
            found += _tensors(value)
    return found
