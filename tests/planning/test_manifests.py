"""Which manifests may name files of some partitions, by their partition statistics."""

from lakehouse_core.planning.manifests import manifests_of_partitions
from lakehouse_core.table.data_file import EMPTY_ROW
from tests.planning.change_vocabulary import STRING, manifest, partition


def test_manifests_are_chosen_by_their_partition_statistics() -> None:
    manifests = [
        manifest("jan", 1, partitions=["2024-01"]),
        manifest("all", 1, partitions=["2024-01", "2024-12"]),
        manifest("null", 1, partitions=[None]),
        manifest("jan-null", 1, partitions=["2024-01", None]),
    ]

    def chosen(*values: str | None) -> list[str]:
        wanted = [partition(value) for value in values]
        return [one.file_name for one in manifests_of_partitions(manifests, wanted, [STRING])]

    assert chosen("2024-01") == ["jan", "all", "jan-null"]
    assert chosen("2024-05") == ["all"]
    assert chosen(None) == ["null", "jan-null"]
    assert chosen("2025-01") == []
    assert chosen("2025-01", None) == ["null", "jan-null"]


def test_without_partitions_every_manifest_may_hold_any_file() -> None:
    assert len(manifests_of_partitions([manifest("a", 1), manifest("b", 1)], [EMPTY_ROW], [])) == 2
