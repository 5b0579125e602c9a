"""The Avro schemas under which manifests are written: the fields of Java 1.4, names and order as Java has them.

Rule: unions are ["null", T], null first; Java looks at the branch index only. Stored in every manifest. Append nullable
fields, never change one.
Source: docs/format/manifest.md#avro-conventions.
"""

from collections.abc import Sequence
from typing import Any

# Stored in every record.
MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


def _nullable(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def _record_type(name: str, fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _root(fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    # The record names that Java writes. Java's readers match fields only.
    return {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": list(fields),
    }


def _array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _stats_type(name: str) -> dict[str, Any]:
    return _record_type(
        name,
        [
            _field("_MIN_VALUES", "bytes"),
            _field("_MAX_VALUES", "bytes"),
            _nullable("_NULL_COUNTS", _array_of(["null", "long"])),
        ],
    )


_DATA_FILE_FIELDS = [
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _field("_MIN_KEY", "bytes"),
    _field("_MAX_KEY", "bytes"),
    _field("_KEY_STATS", _stats_type("record__FILE__KEY_STATS")),
    _field("_VALUE_STATS", _stats_type("record__FILE__VALUE_STATS")),
    _field("_MIN_SEQUENCE_NUMBER", "long"),
    _field("_MAX_SEQUENCE_NUMBER", "long"),
    _field("_SCHEMA_ID", "long"),
    _field("_LEVEL", "int"),
    _field("_EXTRA_FILES", _array_of("string")),
    _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    _nullable("_DELETE_ROW_COUNT", "long"),
    _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
    _nullable("_FILE_SOURCE", "int"),
    _nullable("_VALUE_STATS_COLS", _array_of("string")),
    _nullable("_EXTERNAL_PATH", "string"),
    _nullable("_FIRST_ROW_ID", "long"),
    _nullable("_WRITE_COLS", _array_of("string")),
]
# Written only if an entry has a value: the field came with Java 2.1, and older engines do not write it.
_SEQUENCES_FIELD = _nullable("_WRITE_COLS_SEQUENCES", _array_of("long"))


def _manifest_schema(data_file_fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return _root(
        [
            _field("_VERSION", "int"),
            _field("_KIND", "int"),
            _field("_PARTITION", "bytes"),
            _field("_BUCKET", "int"),
            _field("_TOTAL_BUCKETS", "int"),
            _field("_FILE", _record_type("record__FILE", data_file_fields)),
        ]
    )


MANIFEST_SCHEMA = _manifest_schema(_DATA_FILE_FIELDS)
MANIFEST_SCHEMA_2_1 = _manifest_schema([*_DATA_FILE_FIELDS, _SEQUENCES_FIELD])

MANIFEST_LIST_SCHEMA = _root(
    [
        _field("_VERSION", "int"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_NUM_ADDED_FILES", "long"),
        _field("_NUM_DELETED_FILES", "long"),
        _field("_PARTITION_STATS", _stats_type("record__PARTITION_STATS")),
        _field("_SCHEMA_ID", "long"),
        _nullable("_MIN_BUCKET", "int"),
        _nullable("_MAX_BUCKET", "int"),
        _nullable("_MIN_LEVEL", "int"),
        _nullable("_MAX_LEVEL", "int"),
        _nullable("_MIN_ROW_ID", "long"),
        _nullable("_MAX_ROW_ID", "long"),
    ]
)

INDEX_MANIFEST_SCHEMA = _root(
    [
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_INDEX_TYPE", "string"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _nullable(
            "_DELETIONS_VECTORS_RANGES",
            _array_of(
                [
                    "null",
                    _record_type(
                        "record__DELETIONS_VECTORS_RANGES",
                        [
                            _field("f0", "string"),
                            _field("f1", "int"),
                            _field("f2", "int"),
                            _nullable("_CARDINALITY", "long"),
                        ],
                    ),
                ]
            ),
        ),
        _nullable("_EXTERNAL_PATH", "string"),
        _nullable(
            "_GLOBAL_INDEX",
            _record_type(
                "record__GLOBAL_INDEX",
                [
                    _field("_ROW_RANGE_START", "long"),
                    _field("_ROW_RANGE_END", "long"),
                    _field("_INDEX_FIELD_ID", "int"),
                    _nullable("_EXTRA_FIELD_IDS", _array_of("int")),
                    _nullable("_INDEX_META", "bytes"),
                    _nullable("_SOURCE_META", "bytes"),
                ],
            ),
        ),
    ]
)
