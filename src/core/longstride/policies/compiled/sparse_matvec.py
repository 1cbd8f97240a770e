"""Sums of matrix rows in registers: the inner loop of the compiled actor, written for LLVM.

From arrays LLVM cannot tell that the outputs of a product do not overlap its weights, so it would read and write them
again with every few rows. Here the outputs are one value, a vector as wide as the registers of a core together, from
the first row to the last. Which inputs are not zero is a number of 64 bits, whose zeros are jumped over.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.extending import intrinsic

INPUTS = 64
"""Inputs that are looked at together."""

_WIDEST = 128
"""Outputs of a vector: 8 registers of AVX-512, 16 of AVX2, which is all that there are."""


def widths(n_outputs: int) -> Iterator[int]:
    """Yield the widths of the vectors that outputs are taken in: powers of two; the last may reach beyond the row."""
    while n_outputs > 0:
        width = min(1 << (n_outputs - 1).bit_length(), _WIDEST)
        if n_outputs <= 0.75 * width:  # wider would be mostly in vain
            width //= 2
        yield width
        n_outputs -= width


def _add_rows_in_python(params, first, inputs, x, wanted, outputs, y, n_outputs):  # type: ignore[no-untyped-def]
    """Do the same where nothing is compiled (``NUMBA_DISABLE_JIT``)."""
    for i in range(INPUTS):
        if wanted >> i & 1 and inputs[x + i] != 0.0:
            row = first + i * n_outputs
            outputs[y : y + n_outputs] += inputs[x + i] * params[row : row + n_outputs]


@intrinsic(prefer_literal=True)
def _add_rows(context, params, first, inputs, x, wanted, outputs, y, n_outputs):  # type: ignore[no-untyped-def]
    """Add the rows of a matrix whose inputs are not zero, one after another, each times its input.

    The order is that of the inputs and each product is added as it is made, with one rounding where the processor can:
    the sum does not depend on which zeros are skipped, nor on what else is computed beside it.

    Arrays are float32[*]. The matrix lies in ``params`` row by row, the row of the first of 64 inputs from ``first``
    on. All 64 must be there, from ``x`` on; bit i of ``wanted`` says whether input i counts. Outputs begin at ``y`` and
    change up to the end of the last of :func:`widths`. ``n_outputs``, the columns of the matrix, is a constant. What a
    vector reaches beyond a row is read too.
    """
    i64, columns = types.int64, n_outputs.literal_value
    signature = types.void(params, i64, inputs, i64, i64, outputs, i64, n_outputs)
    return signature, lambda context, builder, signature, arguments: _generate(
        context, builder, signature.args, arguments, columns
    )


def _generate(context: Any, b: Any, kinds: Any, arguments: Any, columns: int) -> Any:
    """Generate the code: for each vector a loop over the bits that are set."""
    params, inputs, outputs = (context.make_array(kinds[k])(context, b, arguments[k]).data for k in (0, 2, 5))
    _, first, _, x, wanted, _, y, _ = arguments
    one, several, i64 = ir.FloatType(), ir.VectorType(ir.FloatType(), INPUTS), ir.IntType(64)
    values = b.load(b.bitcast(b.gep(inputs, [x]), several.as_pointer()), align=4)
    nonzero = b.fcmp_unordered("!=", values, ir.Constant(several, None))  # a NaN is not zero
    rows = b.and_(b.bitcast(nonzero, i64), wanted)
    column = 0
    for width in widths(columns):
        vector = ir.VectorType(one, width)
        place = b.bitcast(b.gep(outputs, [b.add(y, i64(column))]), vector.as_pointer())
        begin, before = b.load(place, align=4), b.block
        loop, after = b.append_basic_block("row"), b.append_basic_block("rows_done")
        b.cbranch(b.icmp_unsigned("==", rows, i64(0)), after, loop)
        b.position_at_end(loop)
        total, left = b.phi(vector), b.phi(i64)
        i = b.cttz(left, ir.IntType(1)(1))
        row = b.add(b.add(first, i64(column)), b.mul(i, i64(columns)))
        weight = b.load(b.bitcast(b.gep(params, [row]), vector.as_pointer()), align=4)
        product = b.fmul(_repeated(b, b.load(b.gep(inputs, [b.add(x, i)])), vector), weight, flags=("contract",))
        new_total, fewer = b.fadd(product, total, flags=("contract",)), b.and_(left, b.sub(left, i64(1)))
        b.cbranch(b.icmp_unsigned("==", fewer, i64(0)), after, loop)
        b.position_at_end(after)
        end = b.phi(vector)
        for phi, at_first, later in ((total, begin, new_total), (left, rows, fewer), (end, begin, new_total)):
            phi.add_incoming(at_first, before)
            phi.add_incoming(later, loop)
        b.store(end, place, align=4)
        column += width
    return context.get_dummy_value()


def _repeated(b: Any, value: Any, vector: Any) -> Any:
    """Return a vector that is one value everywhere."""
    nothing, index = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    lanes = ir.Constant(ir.VectorType(index, vector.count), None)
    return b.shuffle_vector(b.insert_element(nothing, value, index(0)), nothing, lanes)


_compiles = not vars(numba_config)["DISABLE_JIT"]

add_rows: Any = _add_rows if _compiles else _add_rows_in_python

unsigned: Any = np.uint64 if _compiles else int
"""Makes an index unsigned: nothing to wrap around, so that the compiler can take several elements at a time."""
