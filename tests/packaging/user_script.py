"""A user's script with most verbs and records of the core, for a strict type check. It is not run."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import lakehouse_core as lc

DAY = date(2013, 1, 5)

catalog: lc.Catalog = lc.connect(Path("lake"))
catalog.create_database("sales", exist_ok=True)
names: Sequence[str] = [*catalog.databases(), *catalog.tables("sales")]
orders: lc.Table = catalog.create_table(
    "sales.orders",
    {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING", "amount": "DECIMAL(12, 2)"},
    partition_keys=["dt"],
    primary_keys=("dt", "id"),
    options={"bucket": "4"},
)
altered: lc.SchemaReport = orders.alter(
    lc.AddColumn("note", "STRING", after="status"),
    lc.RenameColumn("note", "remark"),
    lc.MoveColumn("remark", after="id"),
    lc.UpdateColumnType("id", "BIGINT"),
    lc.UpdateColumnComment("id", "Number"),
    lc.UpdateColumnNullability("amount", nullable=True),
    lc.DropColumn("remark"),
    lc.SetOption("num-sorted-run.compaction-trigger", "8"),
    lc.RemoveOption("num-sorted-run.compaction-trigger"),
    lc.UpdateComment("Orders"),
)

written: lc.CommitReport = orders.write([{"dt": DAY, "id": 1, "amount": Decimal("1.5")}])
orders.overwrite([{"dt": DAY, "id": 1}], partition={"dt": DAY})
staged: lc.StagedCommit = orders.stage([{"dt": DAY, "id": 1}], commit_user="nightly", commit_identifier=7)
kept: lc.StagedCommit | None = orders.pending("nightly", 7)
try:
    orders.commit(lc.StagedCommit.from_json(staged.to_json()))
except (lc.CommitConflict, lc.CommitTimeout, lc.CommitOutcomeUnknown) as error:
    print(error)

points: list[lc.ReadPoint] = [lc.Latest(), lc.AtSnapshot(12), lc.AtTag("eod"), lc.AsOf(datetime.now(UTC))]
scans: list[lc.Scan] = [orders.scan(columns=["id"], where=(lc.col("dt") >= DAY) & (lc.col("id") == 1), at=points[1])]
count: int = scans[0].count()
changes: lc.ChangesScan = orders.changes(after=12, until=15)
found: lc.Lookups = orders.lookups()
snapshots: lc.Records[lc.Snapshot] = orders.snapshots()
ids: list[int] = [each.id for each in snapshots]
rows: int = sum(each.row_count for each in orders.files(at=lc.Latest()))
tags: list[str] = [each.name for each in orders.tags()]
buckets: lc.Records[lc.BucketRecord] = orders.buckets()
partitions: lc.Records[lc.PartitionRecord] = orders.partitions()
committers: lc.Records[lc.CommitterRecord] = orders.committers()
schemas: lc.Records[lc.TableSchema] = orders.schemas()
audit: lc.SystemTable = orders.system("audit_log")
answer: lc.Answer = catalog.sql("SELECT id FROM sales.orders WHERE dt >= :since", {"since": DAY})

changed: lc.RowChangeReport = orders.update({"status": "'void'"}, where="id = 7")
orders.delete("amount < 0")
orders.merge(
    [{"id": 1}],
    "t.id = s.id",
    lc.WhenMatched(update="*"),
    lc.WhenNotMatched(insert="*"),
    lc.WhenNotMatchedBySource(delete=True),
)
compacted: lc.CompactionReport = orders.compact(full=True, partition={"dt": DAY}, dry_run=True)
manifests: lc.ManifestReport = orders.compact_manifests()
expired: lc.ExpiryReport = orders.expire_snapshots(retain_max=3, retain_min=1, older_than=timedelta(hours=1))
tagged: lc.TagReport = orders.create_tag("eod", at=12, retention=timedelta(days=30))
branched: lc.BranchReport = orders.create_branch("trial", at=lc.AtTag("eod"))
rescaled: lc.RescaleReport = orders.rescale(buckets=8)
back: lc.RollbackReport = orders.rollback_to(12)
verified: lc.VerifyReport = orders.verify(progress=print)
orphans: lc.OrphanReport = orders.remove_orphans(older_than=timedelta(days=1))
plan: lc.MaintenancePlan = catalog.plan_maintenance(budget=lc.Budget(seconds=60))
page: str = lc.health_page([orders.health()])
