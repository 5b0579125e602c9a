"""Pages under docs/: their code runs, their links and the citations in the code lead to headings that are there."""

import ast
import logging
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click
import pytest

import lakehouse_core as lc
import lakehouse_dagster
from lakehouse_core.cli.program import cli, run
from lakehouse_core.planning.findings import Invariant
from tests.limits import HANGS_AFTER_SECONDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"```(python|sh)\n(.*?)```", re.DOTALL)
# What a line of a block prints, as the page says it.
PRINTED = re.compile(r"# → (.*)$", re.MULTILINE)
PAGES = (
    "catalogs.md",
    "changelogs.md",
    "conditions.md",
    "fleet.md",
    "interchange.md",
    "lineage.md",
    "lookups.md",
    "maintenance.md",
    "moving.md",
    "quick-start.md",
    "row-changes.md",
    "runbook.md",
    "sql.md",
    "table-kinds.md",
    "time-travel.md",
)
CODE = ("lakehouse_core", "lakehouse_dagster", "resources", "assets", "orchestration", "benchmarks", "tests")
CITATION = re.compile(r"\bdocs/[\w/.-]*\.md(?:#[\w-]*)?")
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
# What a reader of the repository cannot look up.
BANNED = {
    "a page by its title": re.compile(r"(?<!Apache )Paimon (?:semantics|format|spec)\b"),
    "a guide": re.compile(r"\bguides?\b"),
    "a bare letter": re.compile(r"(?<![\w.])[A-K]\.\d{1,2}\b"),
    "a promise without its page": re.compile(r"\binvariants? \(?I\d"),
}
# What a text says in a word that has a better one, or without naming who acts.
UNUSED_WORDS = {
    "a subject without a noun": re.compile(r"\b(?:whoever|nobody)\b", re.IGNORECASE),
    "no for not": re.compile(r"(?<!there )\b(?:is|was) no(?:ne of)?\b(?! longer\b)", re.IGNORECASE),
    "another word of the glossary": re.compile(
        r"\b(?:memtables?|sstables?|tombstones?|vacuum(?:s|ed)?|garbage.collect\w*|transaction logs?|main line"
        r"|stored staged commits?)\b",
        re.IGNORECASE,
    ),
}
# The rooms whose rules are those of the format, of a promise or of a page, and their modules that have none of them.
RULED = ("execution/commit", "execution/expiry", "merge", "metadata", "planning")
OWN_RULES = {
    "execution/commit/order",
    "merge/frontier",
    "merge/key_filter",
    "merge/layers",
    "merge/search",
    "metadata/added_files",
    "metadata/look",
    "metadata/lru",
    "metadata/read_ahead",
    "metadata/seen",
    "planning/timestamps",
}
TEXTS = ("lakehouse_core", "lakehouse_dagster", "resources", "assets", "orchestration")


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    run_page(page, tmp_path, monkeypatch, capsys)


@pytest.mark.program
@pytest.mark.spark
def test_the_code_of_the_page_about_spark_runs(spark, tmp_path, monkeypatch, capsys):
    run_page("spark.md", tmp_path, monkeypatch, capsys)


def run_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run all blocks of a page in one namespace; what they make lies in `folder`."""
    monkeypatch.chdir(folder)
    # Pages set up logging, for good; a test puts it back.
    monkeypatch.setattr(logging, "basicConfig", lambda: None)
    before = logging.getLogger("lakehouse_core").level
    names: dict[str, object] = {"__name__": "page"}
    blocks = BLOCK.findall((DOCS / page).read_text())
    said: list[str] = []

    try:
        for language, block in blocks:
            if language == "python":
                exec(block, names)
                said += PRINTED.findall(block)
            else:
                assert [(line, run(shlex.split(line)[1:])) for line in block.splitlines()] == [
                    (line, 0) for line in block.splitlines()
                ]
    finally:
        logging.getLogger("lakehouse_core").setLevel(before)

    printed = iter(capsys.readouterr().out.splitlines())
    # Each is looked for after the one before it.
    assert [text for text in said if text not in printed] == []
    assert len(blocks) > 3


@pytest.mark.program
def test_the_site_is_built_without_a_warning_and_its_reference_has_all_public_names(tmp_path):
    # Told to be quiet it would not count its warnings.
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_SECONDS,
    )

    assert built.returncode == 0, built.stderr
    for page, package in (("api", lc), ("api-dagster", lakehouse_dagster)):
        reference = (tmp_path / f"{page}.html").read_text()
        assert [name for name in package.__all__ if f'id="{package.__name__}.{name}"' not in reference] == []
        named = {match.split(".")[0] for match in re.findall(rf'<h\d id="{package.__name__}\.([^"]+)"', reference)}
        assert named == {*package.__all__}
        parts = dict(re.findall(r'<h2 id="[a-z_]+\.(\w+)"(.*?)(?=<h[23] id|$)', reference, re.DOTALL))
        assert [name for name in package.__all__ if "<p>" not in parts[name]] == []


def test_every_citation_in_the_code_leads_to_a_heading():
    citations = [(f"{path}:{number}", cited) for path, number, line in code() for cited in CITATION.findall(line)]

    assert [where for where in citations if not is_there(ROOT / where[1])] == []
    assert len(citations) > 100


def test_every_module_that_carries_out_a_rule_names_its_page():
    core = ROOT / "lakehouse_core"
    headers = {
        str(path.relative_to(core).with_suffix("")): ast.get_docstring(ast.parse(path.read_text()))
        for room in RULED
        for path in (core / room).rglob("*.py")
    }

    assert {name for name, text in headers.items() if text and not CITATION.search(text)} == OWN_RULES


def test_every_link_of_a_page_leads_to_a_heading():
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    links = [(page, link) for page in pages for link in LINK.findall(without_code(page.read_text()))]

    targets = [
        (page, link, page if link.startswith("#") else page.parent / link.partition("#")[0]) for page, link in links
    ]
    assert [
        (str(page.relative_to(ROOT)), link)
        for page, link, target in targets
        if not is_there(Path(f"{target}#{link.partition('#')[2]}" if "#" in link else target))
    ] == []
    assert len(links) > 30


def test_every_promise_that_verify_checks_is_on_the_page_of_promises_as_such():
    sections = re.split(r"^## ", (DOCS / "reliability" / "invariants.md").read_text(), flags=re.MULTILINE)
    promised = {
        section.split()[0]: "Checked by `verify`" in " ".join(section.split())
        for section in sections
        if section[:1] == "I"
    }

    assert {number for number, is_checked in promised.items() if is_checked} == {each.value for each in Invariant}
    assert [*promised] == [f"I{number}" for number in range(1, 30)]


def test_every_file_that_a_page_names_is_there():
    text = "".join(page.read_text() for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
    named = {*re.findall(r"\b(?:tests|benchmarks|lakehouse_core)/[\w/]+\.\w+", text)}

    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    assert len(named) > 30


def test_the_home_page_leads_to_every_page_for_users():
    listed = {link.partition("#")[0] for link in LINK.findall((DOCS / "index.md").read_text())}

    missing = {page.name for page in DOCS.glob("*.md")} - listed - {"index.md"}
    assert missing == set(), "Add a link to each to docs/index.md."


def test_the_picture_of_the_architecture_names_every_layer():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {
        name.strip()
        for contract in contracts
        if contract["type"] == "layers"
        for line in contract["layers"]
        for name in line.split("|")
    }
    picture = re.search(r"```\n(orchestration/.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)

    assert picture is not None
    missing = layers - {*re.findall(r"\w+", picture[1])}
    assert missing == set(), "Add each to the picture in ARCHITECTURE.md, at the place that its contract gives it."
    assert len(layers) > 50


def test_the_architecture_names_every_module_of_the_core_that_starts_threads():
    page = (ROOT / "ARCHITECTURE.md").read_text().partition("## Threads")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([\w/]+)` \|", page, re.MULTILINE)
    starts = {
        path.removeprefix("lakehouse_core/").removesuffix(".py")
        for path, _, line in code()
        if path.startswith("lakehouse_core/")
        and not line.startswith("class ")
        and re.search(r"\b(?:(?:Thread|Process)PoolExecutor|Threads?|Timer)\(", line)
    }

    assert sorted(listed) == sorted(starts)


def test_the_page_of_the_shell_shows_every_verb():
    lines = map(str.split, (DOCS / "shell.md").read_text().splitlines())
    said = {words[1] for words in lines if words[:1] == ["lakehouse"]}

    missing = {*cli.list_commands(click.Context(cli))} - said - {"completion"}
    assert missing == set(), "Add a line `lakehouse VERB …`, which runs, to a block of docs/shell.md for each."


def test_the_page_of_the_shell_lists_the_verbs_that_take_a_pattern():
    listed = re.search(r"are a pattern, in (.*?)\.", " ".join((DOCS / "shell.md").read_text().split()))
    assert listed is not None
    takes = [verb for verb, command in commands(cli) if any(takes_a_pattern(each) for each in command.params)]

    assert re.findall(r"`([\w -]+)`", listed[1]) == sorted(takes)
    assert len(takes) > 15


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the verbs of the shell, such as `tag create`, with their commands."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        # The steps of an alteration are commands behind its table.
        if isinstance(command, click.Group) and not command.params:
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def takes_a_pattern(parameter: click.Parameter) -> bool:
    """Return whether it is an argument of tables, and `*` is not refused."""
    if not isinstance(parameter, click.Argument) or parameter.name not in ("table", "tables", "pattern"):
        return False
    try:
        return bool(parameter.type.convert("s.*", parameter, None) == "s.*")
    except lc.InvalidRequest:
        return False


@pytest.mark.parametrize("what", BANNED)
def test_the_code_cites_nothing_that_a_reader_cannot_look_up(what):
    found = [f"{path}:{number}: {line.strip()}" for path, number, line in code() if BANNED[what].search(line)]

    assert found == []


@pytest.mark.parametrize("what", UNUSED_WORDS)
def test_headers_docstrings_and_messages_use_the_words_of_the_glossary(what):
    found = [f"{where}: {text}" for where, text in texts() if UNUSED_WORDS[what].search(text)]

    assert found == []


@pytest.mark.parametrize("what", UNUSED_WORDS)
def test_pages_use_the_words_of_the_glossary(what):
    pages = {*DOCS.rglob("*.md"), *ROOT.glob("*.md")} - {DOCS / "glossary.md", ROOT / "CHANGELOG.md"}
    # Decisions and changes are kept as they were written.
    lines = [
        (str(page.relative_to(ROOT)), line)
        for page in sorted(pages - {*(DOCS / "decisions").iterdir()})
        for line in page.read_text().splitlines()
    ]

    assert [found for found in lines if UNUSED_WORDS[what].search(found[1])] == []
    assert len(lines) > 2000


def test_no_word_of_the_glossary_has_two_meanings():
    tables = (DOCS / "glossary.md").read_text().partition("## Words that are not used")[0]
    words = [word for row in re.findall(r"^\| ([^|]+) \|", tables, re.MULTILINE) for word in row.split(", ")]
    meant = [word for word in words if word not in ("Word", "---")]

    assert sorted(meant) == sorted({*meant})
    assert len(meant) > 80


def test_the_words_that_texts_do_not_use_are_recognised():
    faults = [
        ("a subject without a noun", "Whoever reads the file leaves them out."),
        ("no for not", "'x' is no value of INT"),
        ("no for not", "option bucket is none of a read"),
        ("another word of the glossary", "The memtable is full."),
        ("another word of the glossary", "The main line has commits of its own."),
    ]
    good = ["There is no such file.", "The plan is no longer a root.", "'x' is not a value of INT"]

    assert [text for what, text in faults if not UNUSED_WORDS[what].search(text)] == []
    assert [text for text in good for what in UNUSED_WORDS.values() if what.search(text)] == []
    assert len(texts()) > 5000


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("I17 Hints are optional", "i17-hints-are-optional"),
        ("`$ro` and `$audit_log`", "ro-and-audit_log"),
        ("Exactly once, with foreachBatch", "exactly-once-with-foreachbatch"),
    ],
)
def test_a_heading_has_the_anchor_that_code_hosts_give_it(heading, anchor):
    assert slug(heading) == anchor


@cache
def code() -> Sequence[tuple[str, int, str]]:
    """Return path, number and text of each line of Python in the packages."""
    return [
        (str(path.relative_to(ROOT)), number, line)
        for package in CODE
        for path in sorted({*(ROOT / package).rglob("*.py")} - {Path(__file__)})
        for number, line in enumerate(path.read_text().splitlines(), 1)
    ]


@cache
def texts() -> Sequence[tuple[str, str]]:
    """Return place and words of each text of the packages but names: docstrings, messages, help."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", " ".join(node.value.split()))
        for package in TEXTS
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]


def is_there(target: Path) -> bool:
    page, _, anchor = str(target).partition("#")
    path = Path(page)
    return path.exists() and (not anchor or anchor in anchors(path))


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(slug(line.lstrip("#")) for line in without_code(page.read_text()).splitlines() if line[:1] == "#")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
