"""The health page: the figures of tables as one document that loads nothing, with every text of a table escaped."""

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import lakehouse_core as lc
from lakehouse_core.api.health.facts import BucketFacts, CommitFacts, HealthFacts

NOW = 1_700_000_000_000


@pytest.fixture
def catalog(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    return catalog


def table_of(catalog, name, **options):
    return catalog.create_table(
        f"db.{name}",
        {"dt": "STRING NOT NULL", "id": "INT NOT NULL"},
        partition_keys=["dt"],
        primary_keys=["dt", "id"],
        options={"bucket": "1", "write-only": "true", **options},
    )


def facts(**change):
    fields = {
        "table": "db.t",
        "now_millis": NOW,
        "row_count": 10,
        "buckets": (BucketFacts(name="bucket 0", sorted_runs=2, small_files=2, levels=((0, 1, 100), (5, 1, 900))),),
        "file_sizes": {6: 1, 9: 1},
        "snapshots": (CommitFacts(id=1, kind="APPEND", time_millis=NOW, row_count=10, committer="me"),),
        "oldest": None,
        "snapshot_count": 1,
        "tag_count": 0,
        "manifest_count": 1,
        "due": (),
    }
    return HealthFacts(**{**fields, **change})


class Text(HTMLParser):
    """The text of a page; checks that each element is closed in turn and that nothing is loaded."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "img", "iframe", "link", "object")
        assert not [
            value for name, value in attributes if name in ("src", "onload", "onclick", "style") and "url" in value
        ]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def text(page):
    return " ".join(Text(page).words)


def pictures(page):
    return [ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>") for part in page.split("<svg")[1:]]


def test_what_an_expiry_would_take_is_due_until_it_has_run(catalog):
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1 h"}
    table = table_of(catalog, "t", **retained)
    for number in range(5):
        table.write([{"dt": "a", "id": number}])
    table.create_tag("kept", at=1)
    table.compact(full=True)

    assert table.health().due == ("expire: 4 snapshots may go",)
    assert "expire: 4 snapshots may go" in text(lc.health_page([table.health()]))

    table.expire_snapshots()

    assert table.health().due == ()


@pytest.mark.damage
@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("schema/schema-0", {"snapshot.expire.limit": "0"}, "At most 0 may expire in one run"),
        (
            "schema/schema-0",
            {"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "2"},
            "set 1 <= min <= max",
        ),
        ("consumer/consumer-mart", "not a consumer", "a consumer that cannot be read protects everything: "),
    ],
)
def test_the_page_tells_what_keeps_a_table_from_expiring(catalog, tmp_path, file, content, told):
    table = table_of(catalog, "t")
    table.write([{"dt": "a", "id": 1}])
    path = tmp_path / "db.db" / "t" / file
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, dict):  # As another writer may have set them.
        schema = json.loads(path.read_text())
        del schema["lakehouseCrc32"]
        content = json.dumps({**schema, "options": {**schema["options"], **content}})
    path.write_text(content)

    health = catalog.table("db.t").health()

    assert [line for line in health.due if line.startswith("expire: ") and told in line]
    assert health.row_count == 1
    assert told in text(lc.health_page([health]))


def test_the_page_of_a_table_has_its_figures_and_what_is_due(catalog):
    table = table_of(catalog, "t", **{"num-sorted-run.compaction-trigger": "2"})
    for number in range(4):
        table.write([{"dt": "a", "id": number}, {"dt": "b", "id": number}], properties={lc.RUN_ID: f"run-{number}"})
    table.write([{"dt": "b", "id": 9}])

    health = table.health()

    assert (health.file_count, health.row_count, health.snapshot_count) == (9, 9, 5)
    assert [(bucket.name, bucket.sorted_runs) for bucket in health.buckets] == [
        ("dt=b bucket 0", 5),
        ("dt=a bucket 0", 4),
    ]
    assert health.bytes == sum(file.file_size for file in table.files())
    assert health.due == (
        "compact: 2 buckets have more than 2 sorted runs, at most 5",
        "compact --full: it would merge 9 small files",
    )
    page = lc.health_page([health])
    assert all(part in text(page) for part in (*health.due, "dt=a bucket 0", "run run-3", "level 0"))
    assert [len(picture.findall("rect")) for picture in pictures(page)] == [2, len(health.file_sizes), 0]

    table.compact(full=True)

    assert table.health().due == ()
    after = text(lc.health_page([table.health()]))
    assert "6 (COMPACT, " in after
    assert after.index("1 (APPEND, ") < after.index("last compaction")
    assert [bucket.levels[0][:2] for bucket in table.health().buckets] == [(2, 1), (2, 1)]


def test_a_table_without_snapshots_and_a_fleet_without_tables_have_pages(catalog):
    empty = table_of(catalog, "empty").health()

    assert (empty.file_count, empty.snapshots, empty.due) == (0, (), ())
    assert "The table has no snapshots." in text(lc.health_page([empty]))
    assert "Health of 0 tables" in text(lc.health_page([]))


def test_a_fleet_has_a_line_for_each_table_that_leads_to_its_part():
    page = lc.health_page([facts(), facts(table="db.u", due=("compact: now",))])

    assert page.count('href="#t1"') == page.count('id="t1"') == 1
    assert text(page).count("compact: now") == 2


def test_names_cannot_become_markup():
    bad = "<script>alert('&')</script>\""
    page = lc.health_page(
        [
            facts(
                table=bad,
                buckets=(BucketFacts(name=f"dt={bad}", sorted_runs=1, small_files=0, levels=((0, 1, 0),)),),
                snapshots=(
                    CommitFacts(id=1, kind="APPEND", time_millis=NOW, row_count=None, committer=bad + "\ud800"),
                ),
                due=(bad,),
            )
        ]
        * 2
    )

    assert "<script" not in page
    assert bad in text(page)
    page.encode()


@pytest.mark.parametrize(("count", "shown", "told"), [(1, 1, False), (40, 40, False), (41, 40, True)])
def test_more_buckets_than_fit_are_counted(count, shown, told):
    buckets = tuple(BucketFacts(name=f"b{n}", sorted_runs=1, small_files=0, levels=((0, 1, n),)) for n in range(count))

    page = lc.health_page([facts(buckets=buckets)])

    assert len(pictures(page)[0].findall("rect")) == shown
    assert ("… and 1 more bucket" in text(page)) is told


def test_a_time_that_python_lacks_and_one_moment_for_all_snapshots_are_drawn():
    snapshots = [CommitFacts(id=n, kind="X", time_millis=10**18, row_count=0, committer="me") for n in (1, 2)]

    page = lc.health_page([facts(snapshots=tuple(snapshots), snapshot_count=7)])

    assert "1000000000000000000 ms" in text(page)
    assert "… and 5 older snapshots" in text(page)
