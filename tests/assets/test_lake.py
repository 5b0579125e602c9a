"""The tables of this platform."""

from pathlib import Path

from assets.lake import LAKE

ROOT = Path(__file__).parent.parent.parent


def test_our_own_tables_are_the_twelve_of_the_main_job():
    specs = {spec.identifier: spec for spec in LAKE.tables}

    assert list(specs) == [
        "ops.carrier_day",
        "ops.flight_board",
        "ops.flight_events",
        "ops.flight_status",
        "ops.flights",
        "ops.plane_first_seen",
        "ops.plane_operator",
        "ops.weather",
        "ref.airlines",
        "ref.airports",
        "ref.planes",
        "serving.open_flights",
    ]
    assert all(spec.comment.endswith(".") for spec in specs.values())
    assert {name for name, spec in specs.items() if not spec.is_batched} == {
        "ref.airlines",
        "ref.airports",
        "ref.planes",
        "serving.open_flights",
    }
    assert {name for name, spec in specs.items() if spec.tag_batches} == {"ops.flights", "ops.flight_board"}


def test_each_table_names_its_file_from_the_root_of_the_repository():
    assert all(spec.file == f"assets/tables/{spec.identifier}.yaml" for spec in LAKE.tables)
    assert all((ROOT / spec.file).is_file() for spec in LAKE.tables)
