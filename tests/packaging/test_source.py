"""Where in the core a thing may be decided, as far as neither types nor import contracts can say it."""

import ast
import importlib
import inspect
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import lakehouse_core
import lakehouse_dagster

CORE = Path(lakehouse_core.__file__).parent


@cache
def trees() -> Mapping[str, ast.Module]:
    """The modules of the core, parsed once and not in each process that collects tests."""
    return {
        path.relative_to(CORE).with_suffix("").as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(CORE.rglob("*.py"))
    }


def modules_with(finds: Callable[[ast.AST], bool]) -> set[str]:
    """The modules of the core in which a node is found."""
    return {name for name, tree in trees().items() if any(map(finds, ast.walk(tree)))}


def last_name(node: ast.expr) -> str | None:
    """The name that an expression ends with: `b` of `a.b`, `a` of `a[0]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
        case _:
            return None


# Buckets: what a value of the option or the number of a bucket means.


def is_bucket_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            return True
        case _:
            return last_name(node) in ("DYNAMIC_BUCKET", "POSTPONE_BUCKET")


def compares_a_bucket(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    return any(last_name(side) in ("bucket", "buckets") for side in sides) and any(map(is_bucket_number, sides))


def reads_the_bucket_option(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="bucket", value=owner):
            return str(last_name(owner)).endswith("options")
        case _:
            return False


def test_a_bucket_is_tested_by_its_number_in_few_modules() -> None:
    assert modules_with(compares_a_bucket) == {
        "table/bucketing",
        "table/schema/bucket_rules",
        "table/schema/merge_rules",
    }


def test_the_option_bucket_is_read_in_few_modules() -> None:
    assert modules_with(reads_the_bucket_option) == {
        "table/schema/bucket_rules",
        "table/schema/merge_rules",
        "table/schema/record",
    }


def bucketing_matches() -> Iterator[tuple[str, ast.Match]]:
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Match) and any(
                isinstance(pattern, ast.MatchClass) and last_name(pattern.cls) in ("Fixed", "Unaware")
                for case in node.cases
                for pattern in ast.walk(case.pattern)
            ):
                yield name, node


def test_every_decision_by_the_kind_of_bucketing_names_all_kinds() -> None:
    matches = list(bucketing_matches())

    assert len(matches) > 10
    for name, node in matches:
        ending = ast.unparse(node.cases[-1])
        assert ending == f"case _:\n    assert_never({ast.unparse(node.subject)})", f"{name}, line {node.lineno}"


# Planning: values in, values out.

# Functions that decide by their arguments alone: a change of types or columns, a condition on a partition.
PURE_ARGUMENTS = {
    "alter/alter._edit: edit",
    "alter/alter._edit_field: edit",
    "alter/alter._edit_row: edit",
    "alter/alter._edit_within: edit",
    "commit/conflicts.unseen_files: covers",
    "commit/steps.StepState.__init__: covers",
    "commit/steps._check_seen: covers",
}


def functions_of(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a module and the methods of its classes, by their names in it."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for method, part in vars(value).items():
                if inspect.isfunction(part):
                    yield f"{name}.{method}", part


def takes_a_function(hint: Any) -> bool:
    return typing.get_origin(hint) is Callable or any(map(takes_a_function, typing.get_args(hint)))


def functions_that_planning_takes() -> set[str]:
    found = set()
    for module in (name for name in trees() if name.startswith("planning/") and not name.endswith("__init__")):
        for name, function in functions_of(importlib.import_module(f"lakehouse_core.{module.replace('/', '.')}")):
            hints = typing.get_type_hints(function)
            found |= {
                f"{module.removeprefix('planning/')}.{name}: {parameter}"
                for parameter, hint in hints.items()
                if parameter != "return" and takes_a_function(hint)
            }
    return found


def test_planning_is_given_values_and_nothing_that_it_could_read_with() -> None:
    assert functions_that_planning_takes() == PURE_ARGUMENTS


# Options: texts become values in few places.

# Commands and statements that show what is set, or give what is asked for, as it was written.
SHOWING = {
    "cli/tables",
    "catalog/statements/definitions",
    "catalog/statements/shows",
    "catalog/statements/sources",
}
READING = ("options/", "table/", "planning/alter/", "api/system/")


def is_options(node: ast.expr) -> bool:
    return str(last_name(node)).endswith("options") and not isinstance(node, ast.Subscript)


def looks_an_option_up(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(value=owner) | ast.Call(func=ast.Attribute(value=owner, attr="get" | "items")):
            return is_options(owner)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[owner]):
            return is_options(owner)
        case _:
            return False


def test_texts_of_options_are_looked_up_in_few_packages() -> None:
    found = modules_with(looks_an_option_up)

    assert {prefix for prefix in READING for name in found if name.startswith(prefix)} == set(READING)
    assert {name for name in found if not name.startswith(READING)} == SHOWING


# Repeating: how often and how long says `retry`.


def counts_attempts(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.endswith("_ATTEMPTS")


def asks_for_a_retry(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "lakehouse_core.retry"


def test_no_module_counts_attempts_on_its_own() -> None:
    assert modules_with(counts_attempts) == set()
    assert len(modules_with(asks_for_a_retry)) > 8


# Sizes, as CONTRIBUTING.md says them.


def test_a_module_of_the_core_has_400_lines_at_most_but_the_page_of_the_table() -> None:
    lengths = {name: len((CORE / f"{name}.py").read_text(encoding="utf-8").splitlines()) for name in trees()}

    longer = {name: lines for name, lines in lengths.items() if lines > 400 and name != "api/table"}
    assert longer == {}, "Give a concern of each a module of its own (CONTRIBUTING.md, A module)."


def test_a_room_of_the_execution_or_of_the_tasks_has_13_modules_at_most() -> None:
    rooms = Counter(
        name.rpartition("/")[0]
        for name in trees()
        if name.startswith(("execution/", "tasks/")) and not name.endswith("/__init__")
    )

    full = {room: modules for room, modules in rooms.items() if modules > 13}
    assert full == {}, "Give the modules of one concern a folder of their own there (CONTRIBUTING.md, A module)."


def test_a_class_of_the_core_has_16_public_methods_at_most_but_the_table_and_the_catalog() -> None:
    classes = [node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    counts = {
        node.name: len({part.name for part in node.body if isinstance(part, ast.FunctionDef) and part.name[0] != "_"})
        for node in classes
    }

    larger = {name: count for name, count in counts.items() if count > 16 and name not in ("Table", "Catalog")}
    assert larger == {}, "Give the methods of one concern a class of their own, or make them functions."


def test_no_two_public_classes_have_the_same_name() -> None:
    paths = [
        path for package in (lakehouse_core, lakehouse_dagster) for path in Path(package.__path__[0]).rglob("*.py")
    ]
    names = [
        node.name
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


# Names and headers.


def test_no_module_has_a_name_for_anything() -> None:
    said = {
        name for name in trees() if name.rpartition("/")[2] in ("utils", "common", "helpers", "base", "manager", "misc")
    }
    assert said == set()


def test_the_header_of_a_module_has_five_lines_at_most_but_the_tree_of_errors() -> None:
    headers = {name: ast.get_docstring(tree) or "" for name, tree in trees().items() if not name.endswith("__init__")}

    lengths = {name: sum(map(bool, header.splitlines())) for name, header in headers.items()}
    assert {name: lines for name, lines in lengths.items() if not 1 <= lines <= 5} == {"errors": lengths["errors"]}
