"""Arrays in records of any size. Their elements are found without a look for negative indices.

Numba lets a negative index count from the end, which takes three operations and a length at each access. Code that is
compiled for such records must not use negative indices. In plain Python and with ``NUMBA_BOUNDSCHECK`` they work.
"""

import operator
from typing import Any

from numba.core import types
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
    place = context.cast(builder, index, index_kind, types.intp)
    return builder.gep(make_array(kind)(context, builder, array).data, [place], inbounds=True)


@lower_builtin(operator.getitem, FieldArray, types.Integer)
def _get_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_kind = sig.args
    if kind.ndim > 1 or context.enable_boundscheck:
        return getitem_arraynd_intp(context, builder, sig, args)
    array, index = args
    return load_item(context, builder, kind, _address(context, builder, kind, array, index, index_kind))


@lower_builtin(operator.setitem, FieldArray, types.Integer, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_kind, value_kind = sig.args
    if kind.ndim > 1 or context.enable_boundscheck:
        return setitem_array(context, builder, sig, args)
    array, index, value = args
    value = context.cast(builder, value, value_kind, kind.dtype)
    store_item(context, builder, kind, value, _address(context, builder, kind, array, index, index_kind))
    return context.get_dummy_value()
