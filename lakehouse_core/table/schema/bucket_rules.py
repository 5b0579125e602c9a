"""Bucket rules: the rules of a schema for its buckets.

Source: docs/semantics/tables.md#constraints, rules 3 to 6; docs/semantics/tables.md#bucket-functions.
"""

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import AtomicType, TypeRoot, type_to_sql
from lakehouse_core.options import DYNAMIC_BUCKET, POSTPONE_BUCKET, BucketFunction
from lakehouse_core.table.schema.columns import named_column
from lakehouse_core.table.schema.record import TableSchema


def check_buckets(schema: TableSchema) -> None:
    """Check rules 3 to 6, and the column types of the bucket function."""
    options, explicit = schema.table_options, schema.table_options.bucket_key
    if options.bucket == DYNAMIC_BUCKET:
        if explicit:
            raise InvalidRequest(
                f"bucket-key is {','.join(explicit)}, and bucket is -1, which needs no bucket key: set bucket to "
                "1 or more, or "
                "remove bucket-key."
            )
        return
    if options.bucket == POSTPONE_BUCKET and not schema.primary_keys:
        raise InvalidRequest(
            f"Option bucket is {options.bucket}, and the table has no primary key: only rows with a key wait for their "
            "buckets. Set bucket to -1."
        )
    if options.bucket < 1 and options.bucket != POSTPONE_BUCKET:
        raise InvalidRequest(
            f"Option bucket is {options.bucket}: expected 1 or more, -1, or with a primary key {POSTPONE_BUCKET}."
        )
    if not schema.bucket_keys:
        raise InvalidRequest(
            f"Option bucket is {options.bucket} on a table without primary key: set bucket-key, or bucket to -1."
        )
    if len(set(explicit)) < len(explicit):
        raise InvalidRequest(f"bucket-key is {','.join(explicit)}: a column occurs more than once.")
    for field in (named_column(schema, "bucket-key", name) for name in schema.bucket_keys):
        if field.name in schema.partition_keys:
            raise InvalidRequest(
                f"bucket-key names {field.name}, a partition column, which has one value in each partition. Take "
                "other columns."
            )
        if schema.primary_keys and field.name not in schema.primary_keys:
            raise InvalidRequest(
                f"bucket-key names {field.name}, which is not in the primary key ({', '.join(schema.primary_keys)}): "
                "versions of one row would be in different buckets. Take columns of "
                "the primary key."
            )
        if not isinstance(field.type, AtomicType):
            raise InvalidRequest(
                f"bucket-key names {field.name}, a {type_to_sql(field.type)}: only types without parts."
            )
    _check_bucket_function(schema)


def _check_bucket_function(schema: TableSchema) -> None:
    function, fields = schema.table_options.bucket_function, schema.bucket_fields
    roots = [field.type.root for field in fields if isinstance(field.type, AtomicType)]
    if function is BucketFunction.MOD and (len(roots) != 1 or roots[0] not in (TypeRoot.INT, TypeRoot.BIGINT)):
        raise InvalidRequest(
            f"bucket-function.type is mod, which takes one INT or BIGINT column; the bucket key is "
            f"({', '.join(f'{field.name} {type_to_sql(field.type)}' for field in fields)})."
        )
    if function is BucketFunction.HIVE and {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ} & set(roots):
        raise InvalidRequest("bucket-function.type is hive, which takes no timestamps: use default.")
