"""Records whose arrays may have any size: one compiled kernel serves all of them.

To Numba the lengths in a record's dtype belong to its type, so a kernel is compiled anew for each size. A dtype of
:func:`sized_dtype` has a type that knows no more than the fields' names, kinds and numbers of dimensions. The kernel
reads offsets and lengths from a table, once in each function, as nothing ever writes to it. The bytes of a record, and
Python code that uses it, are the same as with any other dtype.
"""

import hashlib
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import StructModel
from numba.core.datamodel.registry import register_default
from numba.core.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    typeof_impl,
    unbox,
)
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.np import numpy_support
from numba.np.arrayobj import make_array, populate_array

from longstride.jit_cache.field_arrays import FieldArray

_MARK = "any_size"
"""The first field of such a dtype, an array without elements, which takes no room."""

_MOST_ADDRESSES = 1024


class Field(NamedTuple):
    """A field as compiled code sees it."""

    name: str
    kind: Any  # Numba's type of the number, or of the array's elements
    dimensions: int  # 0 for a number
    offset: int  # of a number; -1 for an array, whose offset is in the table
    row: int  # first place in the table: offset, lengths


class Layout(NamedTuple):
    """What is known of a dtype."""

    dtype: np.dtype[Any]  # kept, as it is found by its address
    kind: "SizedRecord"
    table: np.ndarray  # int64[*]: bytes of a record, then offset and lengths of each field


class SizedRecord(types.Type):
    """Numba's type of a record of any size: the addresses of its bytes and of its table."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = {field.name: field for field in fields}
        self.description = "; ".join(f"{f.name} {f.kind} {f.dimensions} {f.offset}" for f in fields)
        super().__init__(name=f"SizedRecord{hashlib.sha256(self.description.encode()).hexdigest()[:16]}")

    def array(self, field: Field) -> Any:
        """Return Numba's type of an array in the record."""
        return FieldArray(field.kind, field.dimensions)


class SizedRecords(types.Type):
    """Numba's type of an array of such records."""

    def __init__(self, record: SizedRecord, dimensions: int) -> None:
        self.record, self.dimensions = record, dimensions
        self.description = f"{dimensions} of {record.description}"
        super().__init__(name=f"SizedRecords({record.name}, {dimensions})")


def sized_dtype(fields: Iterable[tuple[str, Any, tuple[int, ...]]]) -> np.dtype[Any]:
    """Return the dtype of a record of any size.

    Args:
        fields: name, dtype and shape of each. Those of shape () come first in the record, where their offsets are the
            same in all sizes.
    """
    numbers, arrays = list[Any](), list[Any]()
    for name, kind, shape in fields:
        (arrays if shape else numbers).append((name, kind, shape))
    return np.dtype((np.record, [(_MARK, np.uint8, (0,)), *numbers, *arrays]))


def is_sized(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is one of :func:`sized_dtype`."""
    return dtype.names is not None and dtype.names[:1] == (_MARK,)


_LAYOUTS: dict[np.dtype[Any], Layout] = {}
_BY_ADDRESS: dict[int, Layout] = {}
"""The same, without hashing a dtype of a hundred fields in each call."""


def layout_of(dtype: np.dtype[Any]) -> Layout:
    """Return the layout of a dtype of :func:`sized_dtype`."""
    found = _BY_ADDRESS.get(id(dtype))
    if found is None:
        if len(_BY_ADDRESS) >= _MOST_ADDRESSES:
            _BY_ADDRESS.clear()
        known = _LAYOUTS.setdefault(dtype, _read_layout(dtype))
        found = _BY_ADDRESS[id(dtype)] = known._replace(dtype=dtype)
    return found


def _read_layout(dtype: np.dtype[Any]) -> Layout:
    table, fields, fields_of = [dtype.itemsize], list[Field](), dict[str, Any](dtype.fields or {})
    for name in (dtype.names or ())[1:]:
        column, offset = fields_of[name][:2]
        known = -1 if column.shape else offset
        fields.append(Field(name, numpy_support.from_dtype(column.base), len(column.shape), known, len(table)))
        table += [offset, *column.shape]
    return Layout(dtype, SizedRecord(tuple(fields)), np.array(table, np.int64))


def _table_address(records: Any) -> int:
    return int(layout_of(records.dtype).table.ctypes.data)


_type_of_array, _type_of_record = typeof_impl.dispatch(np.ndarray), typeof_impl.dispatch(np.void)


@typeof_impl.register(np.ndarray)
def _type_of_records(value: Any, c: Any) -> Any:
    if is_sized(value.dtype):
        return SizedRecords(layout_of(value.dtype).kind, value.ndim)
    return _type_of_array(value, c)


@typeof_impl.register(np.void)
def _type_of_one(value: Any, c: Any) -> Any:
    return layout_of(value.dtype).kind if is_sized(value.dtype) else _type_of_record(value, c)


_ADDRESSES = [("data", types.CPointer(types.uint8)), ("table", types.CPointer(types.int64))]


@register_default(SizedRecord)
class _RecordModel(StructModel):
    def __init__(self, manager: Any, kind: SizedRecord) -> None:
        super().__init__(manager, kind, _ADDRESSES)


@register_default(SizedRecords)
class _RecordsModel(StructModel):
    def __init__(self, manager: Any, kind: SizedRecords) -> None:
        sizes = types.UniTuple(types.intp, kind.dimensions)
        super().__init__(manager, kind, [*_ADDRESSES, ("shape", sizes), ("strides", sizes)])


def _parts(context: Any, builder: Any, kind: Any, value: Any = None) -> Any:
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _fill_table(c: Any, parts: Any, value: Any) -> Any:
    """Set the address of the table; return whether that failed."""
    function = c.pyapi.unserialize(c.pyapi.serialize_object(_table_address))
    address = c.pyapi.call_function_objargs(function, [value])
    parts.table = c.builder.inttoptr(c.pyapi.long_as_longlong(address), parts.table.type)
    c.pyapi.decref(address)
    c.pyapi.decref(function)
    return cgutils.is_not_null(c.builder, c.pyapi.err_occurred())


@unbox(SizedRecord)
def _unbox_record(kind: SizedRecord, value: Any, c: Any) -> NativeValue:
    record, buffer = _parts(c.context, c.builder, kind), c.pyapi.alloca_buffer()
    record.data = c.pyapi.extract_record_data(value, buffer)
    failed = _fill_table(c, record, value)
    return NativeValue(record._getvalue(), is_error=failed, cleanup=lambda: c.pyapi.release_buffer(buffer))


@unbox(SizedRecords)
def _unbox_records(kind: SizedRecords, value: Any, c: Any) -> NativeValue:
    bytes_kind = types.Array(types.uint8, kind.dimensions, "A")
    array, records = make_array(bytes_kind)(c.context, c.builder), _parts(c.context, c.builder, kind)
    pointer = c.builder.bitcast(array._getpointer(), c.pyapi.voidptr)
    wrong = cgutils.is_not_null(c.builder, c.pyapi.nrt_adapt_ndarray_from_python(value, pointer))
    failed = c.builder.or_(wrong, _fill_table(c, records, value))
    records.data, records.shape, records.strides = array.data, array.shape, array.strides

    def release() -> None:
        c.context.nrt.decref(c.builder, bytes_kind, array._getvalue())

    return NativeValue(records._getvalue(), is_error=failed, cleanup=release)


def _are_indices(kind: Any, dimensions: int) -> bool:
    """Return whether an argument of this type names one record."""
    if isinstance(kind, types.UniTuple):
        return len(kind) == dimensions and isinstance(kind.dtype, types.Integer)
    return dimensions == 1 and isinstance(kind, types.Integer)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        records, index = args
        if isinstance(records, SizedRecords) and _are_indices(index, records.dimensions):
            return signature(records.record, *args)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        records, index, value = args
        if isinstance(records, SizedRecords) and _are_indices(index, records.dimensions) and value == records.record:
            return signature(types.none, *args)
        return None


@lower_builtin(operator.getitem, SizedRecords, types.Any)
def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_kind = sig.args
    records, record = _parts(context, builder, kind, args[0]), _parts(context, builder, kind.record)
    indices, of = [args[1]], index_kind
    if isinstance(index_kind, types.UniTuple):
        indices, of = cgutils.unpack_tuple(builder, args[1]), index_kind.dtype
    record.data, record.table = records.data, records.table
    for axis, index in enumerate(indices):
        place = context.cast(builder, index, of, types.intp)
        length, stride = (builder.extract_value(each, axis) for each in (records.shape, records.strides))
        from_end = builder.icmp_signed("<", place, context.get_constant(types.intp, 0))
        place = builder.select(from_end, builder.add(place, length), place)
        record.data = builder.gep(record.data, [builder.mul(place, stride)])
    return record._getvalue()


@lower_builtin(operator.setitem, SizedRecords, types.Any, SizedRecord)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_kind, _ = sig.args
    to = _get_item(context, builder, signature(kind.record, kind, index_kind), args[:2])
    target, source = (_parts(context, builder, kind.record, each) for each in (to, args[2]))
    with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", target.table, source.table)):
        context.call_conv.return_user_exc(builder, ValueError, ("a record of other sizes",))
    size = _read(context, builder, source.table, 0)
    cgutils.raw_memmove(builder, target.data, source.data, size, 1)
    return context.get_dummy_value()


@infer_getattr
class _Fields(AttributeTemplate):
    key = SizedRecord

    def generic_resolve(self, kind: SizedRecord, name: str) -> Any:  # type: ignore[override]
        field = kind.fields.get(name)
        return field and (kind.array(field) if field.dimensions else field.kind)


def _read(context: Any, builder: Any, table: Any, place: int) -> Any:
    """Read a place of the table as what never changes and is not negative: LLVM then reads it once in a function."""
    loaded = builder.load(builder.gep(table, [context.get_constant(types.intp, place)]))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    loaded.set_metadata("range", builder.module.add_metadata([ir.IntType(64)(0), ir.IntType(64)(2**48)]))
    return loaded


def _address(context: Any, builder: Any, record: Any, field: Field) -> Any:
    """Return the address of a number, or of an array's first element."""
    offset = context.get_constant(types.intp, field.offset)
    if field.dimensions:
        offset = _read(context, builder, record.table, field.row)
    address = builder.gep(record.data, [offset], inbounds=True)
    return builder.bitcast(address, ir.PointerType(context.get_data_type(field.kind)))


@lower_getattr_generic(SizedRecord)
def _get_field(context: Any, builder: Any, kind: SizedRecord, value: Any, name: str) -> Any:
    record, field = _parts(context, builder, kind, value), kind.fields[name]
    address = _address(context, builder, record, field)
    if not field.dimensions:
        return context.unpack_value(builder, field.kind, address, align=1)
    array = make_array(kind.array(field))(context, builder)
    shape = [_read(context, builder, record.table, field.row + 1 + axis) for axis in range(field.dimensions)]
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(field.kind)))
    strides = [itemsize]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    sizes = {name: cgutils.pack_array(builder, each) for name, each in (("shape", shape), ("strides", strides))}
    populate_array(array, data=address, itemsize=itemsize, meminfo=None, parent=None, **sizes)
    return array._getvalue()


@lower_setattr_generic(SizedRecord)
def _set_field(context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    kind, value_kind = sig.args
    record, field = _parts(context, builder, kind, args[0]), kind.fields[name]
    value = context.cast(builder, args[1], value_kind, field.kind)
    context.pack_value(builder, field.kind, value, _address(context, builder, record, field), align=1)
