"""Arrays in records of any size. Their elements are found without a look for negative indices.

Numba lets a negative index count from the end, which takes three operations and a length at each access. Code that is
compiled for such records must not use negative indices: they reach what lies before the array, unless bounds are
checked (``NUMBA_BOUNDSCHECK=1``), which raises an IndexError. In plain Python they work as usual, and so they do in
arrays of more dimensions and in slices.
"""

import operator
from typing import Any

from numba.core import cgutils, types
from numba.core.datamodel.models import ArrayModel
from numba.core.datamodel.registry import register_default
from numba.core.extending import lower_builtin
from numba.np.arrayobj import getitem_arraynd_intp, load_item, make_array, setitem_array, store_item


class FieldArray(types.Array):
    """Numba's type of an array in a record of any size."""

    def __init__(self, kind: Any, dimensions: int) -> None:
        super().__init__(kind, dimensions, "C", name=f"FieldArray({kind}, {dimensions})", aligned=False)


register_default(FieldArray)(ArrayModel)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, index_kind: Any) -> Any:
    place, parts = context.cast(builder, index, index_kind, types.intp), make_array(kind)(context, builder, array)
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, place, builder.extract_value(parts.shape, 0))
    return builder.gep(parts.data, [place], inbounds=True)


@lower_builtin(operator.getitem, FieldArray, types.Integer)
def _get_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_kind = sig.args
    if kind.ndim > 1:
        return getitem_arraynd_intp(context, builder, sig, args)
    array, index = args
    return load_item(context, builder, kind, _address(context, builder, kind, array, index, index_kind))


@lower_builtin(operator.setitem, FieldArray, types.Integer, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_kind, value_kind = sig.args
    if kind.ndim > 1:
        return setitem_array(context, builder, sig, args)
    array, index, value = args
    value = context.cast(builder, value, value_kind, kind.dtype)
    store_item(context, builder, kind, value, _address(context, builder, kind, array, index, index_kind))
    return context.get_dummy_value()
