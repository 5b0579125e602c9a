"""Which options about merging a table may have: the decision table that is asked here and, in interop, of Java.

Each case is a merge engine with its options and the answer: `ok`, or `refused` and what the refusal says. `later`: Java
lets the table be created and fails when it is written; here the declaration fails. `here`: Java takes it, and what it
does depends on chance.
"""

from dataclasses import dataclass
from typing import Final

COLUMNS: Final = {
    "k": "INT NOT NULL",
    "a": "INT",
    "b": "STRING",
    "c": "BIGINT",
    "s": "INT",
    "t": "INT",
    "m": "MAP<STRING, INT>",
    "r": "ARRAY<ROW<x INT, y STRING>>",
    "mt": "MAP<STRING, ROW<v INT, ts STRING>>",
    "mi": "MAP<STRING, ROW<v STRING, ts INT>>",
    "bin": "BYTES",
    "bo": "BOOLEAN",
    "vc": "VARCHAR(10)",
    "ai": "ARRAY<INT>",
    "d": "DECIMAL(10, 2)",
    "x y": "INT",
    "p.q": "INT",
}


@dataclass(frozen=True)
class Case:
    options: dict[str, str]
    says: str
    # When Java refuses: at the creation, later, or never.
    java: str

    @property
    def is_refused(self) -> bool:
        return self.says != "ok"


def _cases(text: str) -> list[Case]:
    cases = []
    joined = text.strip().replace(";\n", "; ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    for question, answer in zip(lines[::2], lines[1::2], strict=True):
        engine, _, options = question.partition(":")
        word, _, says = answer.strip().partition(" ")
        pairs = dict(pair.removeprefix(" ").split("=", 1) for pair in options.split(";") if pair)
        java = {"ok": "never", "refused": "create", "later": "later", "here": "never"}[word]
        cases.append(Case({"merge-engine": engine, **pairs}, says or "ok", java))
    return cases


CASES: Final = _cases("""
# Functions are known by name, letter by letter.
aggregation:
  ok
aggregation: fields.a.aggregate-function=sun
  refused fields.a.aggregate-function is 'sun', which is not an aggregate function: did you mean sum
aggregation: fields.a.aggregate-function=SUM
  refused did you mean sum
aggregation: fields.a.aggregate-function=
  refused take one of primary-key, sum
aggregation: fields.a.aggregate-function=count
  refused is not an aggregate function
aggregation: fields.default-aggregate-function=sun
  refused fields.default-aggregate-function is 'sun'
partial-update: fields.s.sequence-group=a; fields.a.aggregate-function=sun
  refused did you mean sum
aggregation: fields.a.aggregate-function=first_not_null_value
  ok
aggregation: fields.a.aggregate-function=primary-key
  ok
deduplicate: fields.a.aggregate-function=sun
  ok

# Columns exist. Java looks for one before the first dot, whatever the column's name, and keeps blanks.
aggregation: fields.x y.aggregate-function=sum
  ok
aggregation: fields.zz.aggregate-function=sum
  refused names the column 'zz'
aggregation: fields.a .aggregate-function=sum
  refused names the column 'a ', which the table does not have: did you mean a?
aggregation: fields.p.q.aggregate-function=sum
  refused names the column 'p'

# Each function takes some types.
aggregation: fields.b.aggregate-function=sum
  later Column b is STRING, which the aggregate function sum does not take: it takes numeric types
aggregation: fields.d.aggregate-function=product
  ok
aggregation: fields.vc.aggregate-function=listagg
  later Column vc is VARCHAR(10), which the aggregate function listagg does not take: it takes STRING
aggregation: fields.b.aggregate-function=listagg
  ok
aggregation: fields.a.aggregate-function=bool_and
  later it takes BOOLEAN
aggregation: fields.bo.aggregate-function=bool_or
  ok
aggregation: fields.bo.aggregate-function=min
  later Column bo is BOOLEAN, which the aggregate function min does not take
aggregation: fields.m.aggregate-function=min
  later the aggregate function min does not take
aggregation: fields.r.aggregate-function=max
  later the aggregate function max does not take
aggregation: fields.bin.aggregate-function=max; fields.b.aggregate-function=min
  ok
aggregation: fields.bin.aggregate-function=hll_sketch
  ok
aggregation: fields.b.aggregate-function=theta_sketch
  later it takes VARBINARY and BYTES
aggregation: fields.b.aggregate-function=rbm32
  later it takes VARBINARY and BYTES
aggregation: fields.b.aggregate-function=collect
  later it takes ARRAY
aggregation: fields.ai.aggregate-function=collect; fields.ai.distinct=TRUE
  ok
aggregation: fields.b.aggregate-function=merge_map
  later it takes MAP
aggregation: fields.m.aggregate-function=merge_map
  ok
aggregation: fields.ai.aggregate-function=nested_update
  later it takes ARRAY<ROW
# The default function meets every column without one of its own, but for the key and sequence fields.
aggregation: fields.default-aggregate-function=listagg
  later Column a is INT, which the aggregate function listagg does not take
aggregation: fields.default-aggregate-function=last_value; fields.a.aggregate-function=sum
  ok
aggregation: fields.k.aggregate-function=listagg
  ok

# Maps with times.
aggregation: fields.mt.aggregate-function=merge_map_with_keytime
  ok
aggregation: fields.m.aggregate-function=merge_map_with_keytime
  later it takes MAP<…, ROW<…>>
aggregation: fields.mt.aggregate-function=merge_map_with_keytime; fields.mt.ts-field=q
  later ts-field names 'q', which is not a field of the column's rows: they have v, ts
aggregation: fields.mi.aggregate-function=merge_map_with_keytime
  here compares the field ts as text, and it is INT
aggregation: fields.mi.aggregate-function=merge_map_with_keytime; fields.mi.ts-field=v
  ok

# Nested tables.
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-key= x , y
  ok
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-key=z
  later nested-key names 'z', which is not a field of the column's rows: they have x, y
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-sequence-field=y
  later fields.r.nested-sequence-field has no effect without fields.r.nested-key
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-key-null-strategy=merge
  later fields.r.nested-key-null-strategy has no effect without fields.r.nested-key
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-key=x; fields.r.nested-sequence-field=z
  later nested-sequence-field names 'z'
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-key=x; fields.r.nested-key-null-strategy=IGNORE
  ok
aggregation: fields.r.aggregate-function=nested_update; fields.r.nested-key=x; fields.r.nested-key-null-strategy=never
  later expected one of merge, ignore, error
aggregation: fields.r.aggregate-function=nested_update; fields.r.count-limit=-1
  ok
aggregation: fields.r.aggregate-function=nested_update; fields.r.count-limit=3000000000
  later it is at most 2147483647
aggregation: fields.r.aggregate-function=nested_partial_update
  later nested_partial_update, which needs a key
aggregation: fields.r.aggregate-function=nested_partial_update; fields.r.nested-key=x
  ok

# Retracts.
aggregation: fields.a.ignore-retract=yes
  later expected true or false
aggregation: fields.a.ignore-retract=TRUE
  ok
aggregation: fields.a.ignore-retract=true; aggregation.remove-record-on-delete=true
  later fields.a.ignore-retract and aggregation.remove-record-on-delete are both true
aggregation: fields.k.ignore-retract=true; aggregation.remove-record-on-delete=true
  later fields.k.ignore-retract and aggregation.remove-record-on-delete are both true
aggregation: ignore-delete=true; aggregation.remove-record-on-delete=true
  ok

# Sequence fields of the whole table.
aggregation: sequence.field=a; fields.a.aggregate-function=sum
  refused takes no aggregate-function
aggregation: sequence.field=a,a
  refused 2 times
aggregation: sequence.field=a; fields.default-aggregate-function=last_value
  ok

# Sequence groups: lists without blanks, columns that exist, no key columns, each column in one group.
partial-update:
  ok
partial-update: fields.s.sequence-group=a,b
  ok
partial-update: fields.s.sequence-group=a,b,
  ok
partial-update: fields.s.sequence-group=,
  ok
partial-update: fields.s.sequence-group=
  refused names '', which is not a column
partial-update: fields.s.sequence-group=a, b
  refused names ' b', which is not a column. Leave out the blanks
partial-update: fields.s, t.sequence-group=a
  refused names the column ' t'
partial-update: fields.s,s.sequence-group=a
  ok
partial-update: fields.s.sequence-group=a,s
  ok
partial-update: fields.s.sequence-group=a,a
  refused names the column a twice
partial-update: fields.s.sequence-group=a; fields.t.sequence-group=a
  refused names the column a and fields.s.sequence-group names it, too
partial-update: fields.s.sequence-group=a; fields.s,t.sequence-group=b
  here Column s is in 2 sequence groups, as a sequence field of one
partial-update: fields.s.sequence-group=a; fields.t.sequence-group=s
  here Column s is in 2 sequence groups
partial-update: fields.s.sequence-group=k
  refused names k, which is part of the primary key
partial-update: fields.k.sequence-group=a
  refused names k, which is part of the primary key
partial-update: fields.s.sequence-group=zz
  refused names 'zz', which is not a column
partial-update: fields.zz.sequence-group=a
  refused names the column 'zz'
partial-update: fields.m.sequence-group=a
  here orders a group by m, a MAP<STRING, INT>
partial-update: fields.s.sequence-group=a; sequence.field=t
  ok
partial-update: fields.s.sequence-group=a; sequence.field=s
  ok

# Functions need a group, but for the one that does what happens without.
partial-update: fields.a.aggregate-function=sum
  refused Column a has the aggregate function sum and is in no sequence group
partial-update: fields.a.aggregate-function=last_non_null_value
  ok
partial-update: fields.default-aggregate-function=last_non_null_value
  ok
partial-update: fields.default-aggregate-function=last_value
  refused Column a has the aggregate function last_value and is in no sequence group
partial-update: fields.s.sequence-group=a; fields.a.aggregate-function=sum
  ok
partial-update: fields.s.sequence-group=a; fields.s.aggregate-function=sum
  ok
partial-update: fields.s.sequence-group=a; fields.c.aggregate-function=sum
  refused Column c has the aggregate function sum
partial-update: fields.s.sequence-group=a,b,c,t,m,r,mt,mi,bin,bo,vc,ai,d,x y,p.q;
fields.default-aggregate-function=last_value
  ok
partial-update: fields.s.sequence-group=b; fields.b.aggregate-function=sum
  later Column b is STRING
partial-update: fields.s.sequence-group=a; fields.a.ignore-retract=true; aggregation.remove-record-on-delete=true;
fields.a.aggregate-function=sum
  later are both true

# What a delete does is said once.
partial-update: partial-update.remove-record-on-delete=true
  ok
partial-update: partial-update.remove-record-on-delete=true; ignore-delete=true
  refused ignore-delete and partial-update.remove-record-on-delete are both true
partial-update: partial-update.remove-record-on-delete=true; partial-update.ignore-delete=true
  refused ignore-delete and partial-update.remove-record-on-delete are both true
partial-update: partial-update.remove-record-on-delete=true; fields.s.sequence-group=a
  refused the table has sequence groups
partial-update: partial-update.remove-record-on-sequence-group=s; fields.s.sequence-group=a
  ok
partial-update: partial-update.remove-record-on-sequence-group=s; fields.s.sequence-group=a; ignore-delete=true
  refused ignore-delete is true and partial-update.remove-record-on-sequence-group is set
partial-update: partial-update.remove-record-on-sequence-group=a; fields.s.sequence-group=a
  refused names 'a', which is not a field of a sequence group: it takes s
partial-update: partial-update.remove-record-on-sequence-group=s
  refused the table has no sequence group
partial-update: partial-update.remove-record-on-sequence-group=s, t; fields.s,t.sequence-group=a
  refused names ' t'
partial-update: partial-update.remove-record-on-sequence-group=; fields.s,t.sequence-group=a
  refused names ''

# The first row stays.
first-row:
  ok
first-row: ignore-delete=true
  ok
first-row: partial-update.remove-record-on-delete=true
  ok
first-row: sequence.field=a
  refused it takes no sequence.field
first-row: changelog-producer=lookup
  ok
first-row: changelog-producer=input
  refused take none or lookup
first-row: changelog-producer=full-compaction
  refused take none or lookup
first-row: deletion-vectors.enabled=true
  refused which deletes nothing
deduplicate: deletion-vectors.enabled=true; changelog-producer=full-compaction
  refused take none, input or lookup
deduplicate: deletion-vectors.enabled=true; changelog-producer=input
  ok
""")
