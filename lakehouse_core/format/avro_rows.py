"""Avro rows: the Avro schema of a table's rows as in Java, and the conversion of Arrow columns to records and back.

Times and decimals are passed to fastavro as raw integers and bytes; this module interprets the annotations. Source:
docs/format/data-files.md#avro.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

import fastavro
import pyarrow as pa

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.avro_container import BLOCK_BYTES, AvroBlock, corrupt
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
    timestamp_unit,
    type_to_sql,
)

_NAMESPACE: Final = "org.apache.paimon.avro.generated"
_ROOT_RECORD: Final = "record"
_COUNT: Final = AtomicType(TypeRoot.INT, True)
_FINEST_PRECISION: Final = 6
_DECIMALS: Final = Context(prec=80)
# Bytes appended to a block: a value that claims more bytes than the block has ends there, which the position shows.
_GUARD: Final = b"\0"
_PRIMITIVES: Final[Mapping[TypeRoot, str]] = {
    TypeRoot.BOOLEAN: "boolean",
    **{root: "int" for root in INTEGER_BITS},
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    **{root: "string" for root in STRING_ROOTS},
    **{root: "bytes" for root in BINARY_ROOTS},
}
_PLAIN_UNITS: Final = {"millis": 1, "micros": 1_000}

Record = dict[str, Any]


def avro_row_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the schema that records of these columns have. Raises UnsupportedFeature naming a column it cannot hold.

    As in Java, the annotations of timestamps with and without zone are swapped in comparison with other formats.
    """
    return {
        "type": "record",
        "name": _ROOT_RECORD,
        "namespace": _NAMESPACE,
        "fields": [_field_schema(field, _ROOT_RECORD, field.name) for field in fields],
    }


def _field_schema(field: DataField, record: str, column: str) -> dict[str, Any]:
    result = {"name": field.name, "type": _nullable_schema(field.type, f"{record}_{field.name}", column)}
    return {**result, "default": None} if field.type.nullable else result


def _nullable_schema(data_type: DataType, record: str, column: str) -> Any:
    plain = _schema(data_type, record, column)
    return ["null", plain] if data_type.nullable else plain


def _schema(data_type: DataType, record: str, column: str) -> Any:
    """Return the Avro schema of a type. `record`: the name for a record at this place."""
    match data_type:
        case AtomicType():
            return _atomic_schema(data_type, column)
        case ArrayType(element):
            return {"type": "array", "items": _nullable_schema(element, record, column)}
        case MapType(key, value):
            return _map_schema(key, value, record, column)
        case MultisetType(element) if _is_text(element):
            return _map_schema(element, _COUNT, record, column)
        case MultisetType():
            # Java writes other multisets as arrays of records, which it cannot read.
            raise UnsupportedFeature(
                f"Column {column}: Avro files cannot hold {type_to_sql(data_type)}, only multisets of strings. Set "
                "file.format to parquet."
            )
        case RowType(fields):
            return {
                "type": "record",
                "name": record,
                "fields": [_field_schema(field, record, column) for field in fields],
            }


def _map_schema(key: DataType, value: DataType, record: str, column: str) -> dict[str, Any]:
    if _is_text(key):
        return {"type": "map", "values": _nullable_schema(value, record, column)}
    pair = {
        "type": "record",
        "name": record,
        "fields": [
            {"name": "key", "type": _nullable_schema(key, f"{record}_key", column)},
            _field_schema(DataField(0, "value", value), record, column),
        ],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def _atomic_schema(data_type: AtomicType, column: str) -> Any:
    root = data_type.root
    if root in _PRIMITIVES:
        return _PRIMITIVES[root]
    if root is TypeRoot.DECIMAL:
        parameters = {"precision": data_type.precision, "scale": data_type.scale}
        return {"type": "bytes", "logicalType": "decimal", **parameters}
    if root is TypeRoot.DATE:
        return {"type": "int", "logicalType": "date"}
    if root is TypeRoot.TIME:
        return {"type": "int", "logicalType": "time-millis"}
    if root in TIMESTAMP_ROOTS and (data_type.precision or 0) <= _FINEST_PRECISION:
        unit = "millis" if (data_type.precision or 0) <= 3 else "micros"
        prefix = "local-" if root is TypeRoot.TIMESTAMP_LTZ else ""
        return {"type": "long", "logicalType": f"{prefix}timestamp-{unit}"}
    raise UnsupportedFeature(
        f"Column {column}: Avro files cannot hold {type_to_sql(data_type)}. Set file.format to parquet, or declare "
        "timestamps with at most 6 digits."
    )


def _is_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS


class RowEncoder:
    """Turns batches of the columns `fields` into blocks of Avro records."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._parsed = fastavro.parse_schema(_unannotated(avro_row_schema(fields)))

    def blocks(self, columns: Sequence[pa.Array]) -> list[tuple[int, bytes]]:
        """Return the rows of the columns, which are those of the fields, as blocks: record count and bytes."""
        values = [_records_of(column, field.type) for column, field in zip(columns, self._fields, strict=True)]
        names = [field.name for field in self._fields]
        blocks, buffer, count = [], io.BytesIO(), 0
        for row in zip(*values, strict=True):
            fastavro.schemaless_writer(buffer, self._parsed, dict(zip(names, row, strict=True)))
            count += 1
            if buffer.tell() >= BLOCK_BYTES:
                blocks.append((count, buffer.getvalue()))
                buffer, count = io.BytesIO(), 0
        if count:
            blocks.append((count, buffer.getvalue()))
        return blocks


def _records_of(array: pa.Array, data_type: DataType) -> list[Any]:
    """Return the values in the form that fastavro accepts for the schema without annotations."""
    match data_type:
        case AtomicType():
            return _raw_values(array, data_type)
        case ArrayType(element):
            return _lists(array, _records_of(_used(array, array.values), element))
        case MapType(key, value):
            return _maps(array, key, value)
        case MultisetType(element):
            return _maps(array, element, _COUNT)
        case RowType(fields):
            parts = [_records_of(array.field(index), field.type) for index, field in enumerate(fields)]
            names = [field.name for field in fields]
            rows = zip(*parts, strict=True)
            return [
                None if is_null else dict(zip(names, row, strict=True))
                for row, is_null in zip(rows, array.is_null().to_pylist(), strict=True)
            ]


def _raw_values(array: pa.Array, data_type: AtomicType) -> list[Any]:
    if data_type.root in (TypeRoot.DATE, TypeRoot.TIME):
        array = array.cast(pa.int32())
    elif data_type.root in TIMESTAMP_ROOTS:
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    if data_type.root is TypeRoot.DECIMAL:
        scale = data_type.scale or 0
        return [None if value is None else _unscaled_bytes(value, scale) for value in values]
    return values


def _unscaled_bytes(value: Decimal, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _DECIMALS))
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _maps(array: pa.Array, key: DataType, value: DataType) -> list[Any]:
    keys = _records_of(_used(array, array.keys), key)
    items = _records_of(_used(array, array.items), value)
    pairs = _lists(array, list(zip(keys, items, strict=True)))
    if _is_text(key):
        return [None if some is None else dict(some) for some in pairs]
    return [None if some is None else [{"key": k, "value": v} for k, v in some] for some in pairs]


def _used(array: pa.Array, values: pa.Array) -> pa.Array:
    """Return the part of the child values that a list or map array, possibly a slice, refers to."""
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return values.slice(start, stop - start)


def _lists(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    nulls = array.is_null().to_pylist()
    return [
        None if is_null else values[start - offsets[0] : stop - offsets[0]]
        for start, stop, is_null in zip(offsets, offsets[1:], nulls, strict=False)
    ]


class RowDecoder:
    """Turns blocks of Avro records into Arrow columns. `schema` is the file's, `name` stands for the file in errors."""

    def __init__(self, schema: Mapping[str, Any] | list[Any], name: str) -> None:
        self._name = name
        try:
            self._schemas = {field["name"]: field["type"] for field in _branch(schema)["fields"]}
            self._parsed = fastavro.parse_schema(_unannotated(schema))
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
            raise CorruptTable(
                f"{name}: avro.schema in the header is not a schema ({error!r:.200}). Keep the file as evidence; "
                "restore it "
                "from a copy of the table."
            ) from error

    @property
    def column_names(self) -> frozenset[str]:
        return frozenset(self._schemas)

    def records(self, block: AvroBlock) -> list[Record]:
        """Return the records of a block. Raises CorruptTable unless they take exactly all of its bytes."""
        source = io.BytesIO(block.data + _GUARD)
        found: list[Record] = []
        try:
            for _ in range(block.count):
                found.append(fastavro.schemaless_reader(source, self._parsed, None))
        except (EOFError, ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
            problem = f"record {len(found)} of a block cannot be decoded ({error!r:.200})"
            raise corrupt(self._name, source.tell(), problem) from error
        if source.tell() != len(block.data):
            problem = f"the {block.count} records of a block end at byte {source.tell()} of {len(block.data)}"
            raise corrupt(self._name, source.tell(), problem)
        return found

    def column(self, records: Sequence[Record], field: DataField) -> pa.Array:
        """Return a column of some records as the type that `field` says the file holds. Raises CorruptTable."""
        values = [record[field.name] for record in records]
        try:
            convert = _converter(field.type, self._schemas[field.name])
            if convert is not None:
                values = [None if value is None else convert(value) for value in values]
            return pa.array(values, arrow_type(field.type))
        except (pa.ArrowException, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            raise CorruptTable(
                f"{self._name}: its column {field.name!r} cannot be read as {type_to_sql(field.type)} "
                f"({error!r:.200}). Keep the file as evidence; restore it from a copy of the table."
            ) from error


def _converter(data_type: DataType, schema: Any) -> Callable[[Any], Any] | None:
    """Return the function from a raw value, not null, to one that Arrow accepts; None: no conversion."""
    schema = _branch(schema)
    match data_type:
        case AtomicType():
            return _atomic_converter(data_type, schema)
        case ArrayType(element):
            inner = _converter(element, schema["items"])
            return None if inner is None else partial(_each, inner)
        case MapType(key, value):
            return _map_converter(key, value, schema)
        case MultisetType(element):
            return _map_converter(element, _COUNT, schema)
        case RowType(fields):
            types = {part["name"]: part["type"] for part in schema["fields"]}
            parts = [(field.name, _converter(field.type, types[field.name])) for field in fields]
            return partial(_row, [(name, convert) for name, convert in parts if convert is not None])


def _branch(schema: Any) -> Any:
    """Return the branch of a union that is not "null"."""
    if isinstance(schema, list):
        return next((branch for branch in schema if branch != "null"), "null")
    return schema


def _atomic_converter(data_type: AtomicType, schema: Any) -> Callable[[Any], Any] | None:
    if data_type.root is TypeRoot.DECIMAL:
        scale = data_type.scale or 0
        return lambda value: _DECIMALS.scaleb(Decimal(int.from_bytes(value, "big", signed=True)), -scale)
    if data_type.root in TIMESTAMP_ROOTS:
        stored = schema["logicalType"].rpartition("-")[2]
        wanted = 1 if timestamp_unit(data_type.precision or 0) == "ms" else 1_000
        if _PLAIN_UNITS[stored] < wanted:
            return lambda value: value * wanted
        if _PLAIN_UNITS[stored] > wanted:
            return lambda value: value // _PLAIN_UNITS[stored]
    return None


def _map_converter(key: DataType, value: DataType, schema: Any) -> Callable[[Any], Any]:
    if schema["type"] == "map":
        return partial(_pairs_of_map, _converter(value, schema["values"]))
    key_schema, value_schema = (part["type"] for part in schema["items"]["fields"])
    return partial(_pairs_of_list, _converter(key, key_schema), _converter(value, value_schema))


def _each(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _row(converters: Sequence[tuple[str, Callable[[Any], Any]]], value: Record) -> Record:
    for name, convert in converters:
        if value[name] is not None:
            value[name] = convert(value[name])
    return value


def _pairs_of_map(convert: Callable[[Any], Any] | None, value: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(key, _converted(convert, item)) for key, item in value.items()]


def _pairs_of_list(
    convert_key: Callable[[Any], Any] | None, convert: Callable[[Any], Any] | None, value: list[Record]
) -> list[tuple[Any, Any]]:
    return [(_converted(convert_key, pair["key"]), _converted(convert, pair["value"])) for pair in value]


def _converted(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _unannotated(schema: Any) -> Any:
    """Return the schema without logical types, which fastavro would act upon."""
    if isinstance(schema, list):
        return [_unannotated(branch) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in kept:
            kept[key] = _unannotated(kept[key])
    if isinstance(kept.get("type"), (list, Mapping)):
        kept["type"] = _unannotated(kept["type"])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [
            {**field, "type": _unannotated(field.get("type"))} if isinstance(field, Mapping) else field
            for field in kept["fields"]
        ]
    # {"type": "int"} is "int".
    return kept["type"] if set(kept) == {"type"} and isinstance(kept["type"], str) else kept
