"""64-bit bitmaps in Java's own layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.roaring64 import Containers, decode_roaring64, encode_roaring64, union_of

# Written by Java 2.0.0 (`RoaringBitmap64.serialize`): the values, the bytes.
BY_JAVA = {
    (): "00",
    (1,): (
        "01010000000000000004000000000000000000000000000000000001000000fe0100000001020100000001000100000000000000"
        "0000000000000000"
    ),
    (1, 2**20): (
        "0102000000000000000002000500000000000000100004000000000000000000000000000000000004000000000000000010010000"
        "000000000001000000fe0200000001020100000001000102010000000000020000000000000000000000010000"
        "00"
    ),
}


def containers(values: tuple[int, ...] | set[int]) -> Containers:
    found: Containers = {}
    for value in sorted(values):
        found.setdefault(value >> 16, BitMap()).add(value & 0xFFFF)
    return found


def members(held: Containers) -> set[int]:
    return {(key << 16) | low for key, lows in held.items() for low in lows}


@pytest.mark.parametrize(("values", "written"), BY_JAVA.items())
def test_bytes_are_those_that_java_writes(values: tuple[int, ...], written: str) -> None:
    assert encode_roaring64(containers(values)).hex() == written
    assert members(decode_roaring64(bytes.fromhex(written))) == set(values)


UPPER = st.one_of(st.integers(0, 300), st.integers(0, 2**48 - 1), st.builds(lambda n: n << 40, st.integers(0, 255)))
VALUES = st.sets(st.builds(lambda high, low: (high << 16) | low, UPPER, st.integers(0, 2**16 - 1)), max_size=300)


@given(VALUES, VALUES)
def test_a_union_holds_what_either_held(left: set[int], right: set[int]) -> None:
    one, other = (decode_roaring64(encode_roaring64(containers(values))) for values in (left, right))

    assert members(one) == left
    assert members(decode_roaring64(encode_roaring64(union_of(one, other)))) == left | right


@pytest.mark.parametrize("lows", [range(65536), range(0, 65536, 2), range(4097), range(0, 8192, 2)])
def test_every_form_of_a_container_comes_back(lows: range) -> None:
    assert members(decode_roaring64(encode_roaring64({7: BitMap(lows)}))) == {(7 << 16) | low for low in lows}


def test_every_kind_of_node_comes_back() -> None:
    for count in (1, 2, 4, 5, 16, 17, 48, 49, 256):
        held = {key: BitMap([1]) for key in range(count)}

        assert decode_roaring64(encode_roaring64(held)) == held


def test_a_container_in_a_form_that_java_would_not_choose_is_read() -> None:
    # Eight values as bits: what a container looks like from which Java removed most.
    data = bytearray(encode_roaring64({0: BitMap(range(8))}))
    head, tail = data[:-16], data[-16:]
    start = head.index(b"\xfe") + 5
    rebuilt = bytes(head[:start]) + b"\1\1" + (8).to_bytes(4, "little") + b"\xff" + bytes(8191) + bytes(tail)

    assert members(decode_roaring64(rebuilt)) == set(range(8))


WHOLE = encode_roaring64(containers((1, 2**20, 2**40)))


@given(st.binary(max_size=80), st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_damage_is_refused_or_reads_as_another_bitmap(junk: bytes, place: int, change: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] ^= change

    assert outcome(junk) in ("read", "refused")
    assert outcome(bytes(damaged)) in ("read", "refused")
    # The last 16 bytes say what is known by then.
    assert place >= len(WHOLE) - 16 or outcome(WHOLE[:place]) == "refused"


def outcome(data: bytes) -> str:
    try:
        decode_roaring64(data)
    except InvalidRequest:
        return "refused"
    return "read"
