"""Processes that race on an S3 store: for new names, for the versions of objects, and with commits to one table.

Two winners of one name, or a version that was replaced unseen, is a lost commit. Stores that are right in every single
request can lose every race, so try yours: `make race-s3 ENDPOINT=https://… BUCKET=…`, with the keys in the environment
(`BUCKET=az://container` for Azure). It writes below a prefix of its own and removes that. Without a bucket it runs on
the strict server of the tests at 20 ms, where a tenth of the writes gets no answer: each outcome must be found out.
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks import contention
from benchmarks._crowd import crowd
from benchmarks._s3 import s3_server
from lakehouse_core.storage import ObjectStore, delete_folder, open_store, parse_location, read_all, with_storage

PROCESSES = 4
NAMES = 2_000
# Objects to which each process adds a line, by replacing the version that it read.
VERSIONED = 200
LOST = 0.1
SECONDS = 20


@dataclass(frozen=True)
class Server:
    """Where a race takes place. `address`: a prefix of its own. `storage`: the settings that reach it."""

    address: str
    storage: Mapping[str, str]

    def store(self) -> ObjectStore:
        return open_store(with_storage(parse_location(self.address), self.storage))


def take_names(number: int, ready: Callable[[], object], server: Server, names: int) -> tuple[list[int], int]:
    """Return the names that this process won, and how many outcomes were unknown at first."""
    store, mine, won, unknown = server.store(), f"{number}".encode(), [], 0
    ready()
    for name in range(names):
        try:
            is_won = store.create_new(f"names/{name}", mine)
        except lc.WriteOutcomeUnknown:
            unknown += 1
            is_won = store.read(f"names/{name}") == mine
        if is_won:
            won.append(name)
    return won, unknown


def add_lines(number: int, ready: Callable[[], object], server: Server, objects: int) -> int:
    """Add a line to each object; return how many outcomes were unknown at first."""
    store, line, unknown = server.store(), f"{number}\n".encode(), 0
    ready()
    for each in range(objects):
        is_added = False
        while not is_added:
            data, version = store.read_versioned(f"versions/{each}") or (b"", None)
            # An addition whose outcome was unknown.
            is_added = line in data
            try:
                is_added = is_added or store.replace(f"versions/{each}", data + line, if_version=version)
            except lc.WriteOutcomeUnknown:
                unknown += 1
    return unknown


def races(server: Server, names: int, objects: int) -> tuple[list[list[object]], list[measure.Bar]]:
    """Return rows (what, double, lost, unknown at first, seconds), and the bars."""
    found, seconds = crowd(PROCESSES, take_names, server, names)
    store = server.store()
    winners = Counter(name for won, _ in found for name in won)
    double = sum(count > 1 for count in winners.values())
    kept = read_all(store, [f"names/{name}" for name in range(names)])
    by_content = [int(data) for data in kept]
    wrong = sum(name not in found[by_content[name]][0] for name in range(names))
    rows: list[list[object]] = [
        [f"{names} new names", double, wrong, sum(unknown for _, unknown in found), f"{seconds:.1f}"]
    ]
    unknown, seconds = crowd(PROCESSES, add_lines, server, objects)
    lines = [data.split() for data in read_all(store, [f"versions/{each}" for each in range(objects)])]
    twice = sum(len(each) - len(set(each)) for each in lines)
    lost = sum(PROCESSES - len(set(each)) for each in lines)
    rows.append([f"{objects} objects replaced", twice, lost, sum(unknown), f"{seconds:.1f}"])
    return rows, [
        measure.Bar("names with two winners, lines twice", double + twice, 0, 0, ""),
        measure.Bar("names of another's content, lines lost", wrong + lost, 0, 0, ""),
    ]


def commits(server: Server, seconds: float) -> tuple[list[list[object]], list[measure.Bar], float]:
    """Return rows (what, commits a second, fewest, most), the bars, and the commits a second."""
    contention.new_key_table(server.address, server.storage)
    counts, took = crowd(contention.CROWD, contention.upsert_for, server.address, seconds, server.storage)
    table = lc.connect(server.address, storage=server.storage).table("db.t")
    snapshots = table.snapshots()
    landed = Counter((one.commit_user, one.commit_identifier) for one in snapshots)
    told = {(f"writer-{number}", identifier) for number, count in enumerate(counts) for identifier in range(count)}
    rate = sum(counts) / took
    row = [f"{contention.CROWD} processes, the same {contention.KEYS} keys", f"{rate:.1f}", min(counts), max(counts)]
    last = max(snapshots, key=lambda one: one.id).commit_user
    found = [(row["k"], f"writer-{row['v']}") for row in table.scan().to_arrow().to_pylist()]
    expected = [(key, last) for key in range(contention.KEYS)]
    bars = [
        measure.Bar("commits lost", len(told - landed.keys()), 0, 0, ""),
        measure.Bar("commits landed twice", sum(count > 1 for count in landed.values()), 0, 0, ""),
        measure.Bar("keys without the last commit's row", len({*expected} ^ {*found}), 0, 0, ""),
        measure.Bar("findings of verify", len(table.verify(data=True).findings), 0, 0, ""),
    ]
    return [row], bars, rate


@contextmanager
def server_of(endpoint: str, bucket: str, *, lost: float) -> Iterator[Server]:
    """Yield a prefix of its own in the bucket, or on the tests' server without one."""
    place = bucket if "://" in bucket else f"s3://{bucket or 'lake'}"
    address = f"{place}/race-{uuid.uuid4()}"
    if not bucket:
        with s3_server(lost=lost) as storage:
            yield Server(address, storage)
        return
    server = Server(address, {"endpoint": endpoint} if endpoint else {})
    try:
        yield server
    finally:
        delete_folder(server.store(), "")


def main() -> None:
    given = measure.arguments(
        __doc__,
        rounds=1,
        texts={"endpoint": "the address of the service", "bucket": "a bucket there, or az://container"},
    )
    if given.endpoint and not given.bucket:
        raise SystemExit("--endpoint without --bucket: name a bucket there in which the race may write.")
    where = f"{given.endpoint or 'Amazon S3'}, bucket {given.bucket}" if given.bucket else "the tests' server at 20 ms"
    measure.print_header("Races on an S3 store", data=where, packages=["obstore"])
    begun = time.monotonic()
    with server_of(given.endpoint, given.bucket, lost=LOST) as server:
        rows, bars = races(server, measure.scaled(NAMES, given), measure.scaled(VERSIONED, given))
    title = f"{PROCESSES} processes{'' if given.bucket else f', {LOST:.0%} of all writes without an answer'}"
    measure.print_rows(title, ["", "double", "lost or wrong", "unknown at first", "seconds"], rows)
    seconds = measure.scaled(SECONDS, given)
    with server_of(given.endpoint, given.bucket, lost=0) as server:
        rows, more, rate = commits(server, seconds)
    measure.print_rows(f"commits for {seconds} s", ["", "a second", "fewest", "most"], rows)
    if not given.bucket:
        more.append(measure.Bar("commits a second", rate, 4, 8, "", smaller_is_better=False))
    measure.print_bars([*bars, *more])
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
