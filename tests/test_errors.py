"""What the core says is one line that every terminal can show, whatever somebody sent."""

import pickle

import pytest

from lakehouse_core.api.verb import named
from lakehouse_core.errors import InvalidRequest, LakehouseError, near_hint, retell, shown


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class OddText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def itself() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("a", "'a'"),
        (5, "5"),
        (None, "None"),
        ([1, "a"], "[1, 'a']"),
        ({"a": 1}, "{'a': 1}"),
        ("a\nb\0", r"'a\nb\x00'"),
        ("\ud800\u202e", r"'\ud800\u202e'"),
        (b"\n", r"b'\n'"),
        (10**5000, "<an integer of 16610 bits>"),
    ],
    ids=range(9),
)
def test_a_value_is_shown_as_python_writes_it(value, says):
    assert shown(value) == says


@pytest.mark.parametrize(
    "value",
    [
        "x" * (17 << 20),
        b"x" * (17 << 20),
        ["x" * 1000] * 1000,
        {"x" * 1000 + str(number): list(range(1000)) for number in range(1000)},
        [[[[[[[[1]]]]]]]],
        itself(),
        Unspeakable(),
        [Unspeakable()],
        {1: Unspeakable()},
        OddText("a"),
        [OddText("a")],
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_shown_takes_a_short_line(value):
    assert len(shown(value)) <= 2_003
    assert shown(value).isprintable()


def test_the_text_of_an_error_is_one_line_with_its_advice_at_the_end():
    error = InvalidRequest(f"Name 'a\nb\x1b[31m\ud800{'x' * 100_000}': expected a name. Choose another.")

    said = str(error)
    assert said.isprintable()
    assert len(said) < 2_100
    assert said.startswith(r"Name 'a\nb\x1b[31m\ud800xxx")
    assert said.endswith("xxx': expected a name. Choose another.")


def test_an_error_of_several_faults_has_a_line_for_each_when_the_table_is_named():
    with pytest.raises(InvalidRequest) as told, named("db.t"):
        raise InvalidRequest("a: expected b.", "c: expected\nd.")

    assert str(told.value).split("\n") == ["db.t: a: expected b.", r"c: expected\nd."]


def test_an_error_without_a_message_can_be_told_again():
    error = InvalidRequest()
    retell(error, lambda told: f"a: {told}")

    assert str(error) == "a: "


def test_an_error_goes_from_one_process_to_another_as_it_is():
    error: LakehouseError = InvalidRequest("a: expected b.")

    there = pickle.loads(pickle.dumps(error))

    assert (type(there), str(there)) == (InvalidRequest, "a: expected b.")


@pytest.mark.parametrize(
    "name", [10**5000, [10**5000], {"a": 10**5000}, "x" * 10**6], ids=["number", "list", "dict", "text"]
)
def test_a_value_that_is_like_no_name_gets_the_advice_for_it(name):
    assert near_hint(name, ["files", "tags"], "There are: files, tags.") == "There are: files, tags."
