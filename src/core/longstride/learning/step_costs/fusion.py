"""What is left of operations if torch's compiler fuses those between products of matrices."""

from collections.abc import Iterator, Sequence

from longstride.hardware.operations import Amount, Cost, Operations
from longstride.learning.step_costs.counter import Operation, cost_of


def fused(operations: Sequence[Operation]) -> Operations:
    """Return the launches and bytes of kernels in place of operations.

    A product stays as it is. All operations between two products are one kernel, which reads what was there before it
    and writes what comes later, each once. One that joins tensors ends a kernel.
    """
    kernels = list(_kernels(operations))
    last_read = {storage: k for k, kernel in enumerate(kernels) for each in kernel for storage in each.reads}
    costs: list[Cost] = []
    for k, kernel in enumerate(kernels):
        read, written = dict[int, Amount](), dict[int, Amount]()
        for each in kernel:
            read |= {
                storage: max(size, read.get(storage, size))
                for storage, size in each.reads.items()
                if storage not in written
            }
            written |= each.writes
        kept = [size for storage, size in written.items() if last_read.get(storage, k + 1) > k]
        costs.append(cost_of(kernel[0], [*read.values(), *kept]))
    return Operations.of(costs)


def _kernels(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield the operations of each kernel."""
    open_kernel: list[Operation] = []
    for each in operations:
        if each.flops is not None:
            if open_kernel:
                yield open_kernel
            yield [each]
            open_kernel = []
            continue
        open_kernel.append(each)
        if each.joins:
            yield open_kernel
            open_kernel = []
    if open_kernel:
        yield open_kernel
