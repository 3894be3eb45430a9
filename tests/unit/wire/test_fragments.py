from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.samples import a_meta

from hopring.errors import Drop, PeerError
from hopring.ids import SiteId, SiteMask
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.fragments import (
    FRAGMENT_COST_BYTES,
    FRAGMENT_OVERHEAD_BYTES,
    Reassembly,
    fragment,
    fragment_count,
)
from hopring.wire.objects import split_objects
from hopring.wire.routed import Meta, Routed, decode_routed, encode_routed

META: Final = Meta(SiteId(2), 2**63, 9, SiteMask(5), prev=2**63 - 4)
CASES: Final = 20_000
BATCH: Final = 100


def cut(bundle: bytes, chunk_bytes: int = 10) -> list[Routed]:
    return fragment(META, bundle, chunk_bytes + FRAGMENT_OVERHEAD_BYTES)


def reason_of(reassembly: Reassembly, routed: Routed) -> Drop:
    before = repr(reassembly)
    with pytest.raises(PeerError) as caught:
        reassembly.add(routed)
    assert repr(reassembly) == before
    return caught.value.reason


def test_a_bundle_that_fits_is_one_fragment_and_passes_at_once() -> None:
    reassembly = Reassembly()
    [only] = cut(b"0123456789")

    assert reassembly.add(only) == b"0123456789"
    assert (len(reassembly), reassembly.held_bytes) == (0, 0)


def test_fragments_fit_their_objects_and_carry_the_bundles_meta_data() -> None:
    bundle = Random(1).randbytes(150_000)

    parts = fragment(META, bundle, PACKET_BYTES_MAX)

    assert len(parts) == fragment_count(len(bundle), PACKET_BYTES_MAX) == 3
    for part in parts:
        assert len(encode_routed(part)) <= PACKET_BYTES_MAX
        [(kind, body)] = split_objects(encode_routed(part))
        assert decode_routed(kind, body) == part
        assert part.meta() == META


def test_fragments_may_come_in_any_order_and_more_than_once() -> None:
    bundle = bytes(range(45))
    first, second, third, fourth, last = cut(bundle)
    reassembly = Reassembly()

    for part in (last, third, last, first, third, fourth):
        assert reassembly.add(part) is None
    assert reassembly.held_bytes == 35 + 4 * FRAGMENT_COST_BYTES
    assert reassembly.add(second) == bundle
    assert (len(reassembly), reassembly.held_bytes) == (0, 0)


def test_bundles_of_many_sources_are_assembled_concurrently() -> None:
    reassembly = Reassembly()
    parts = cut(bytes(15))
    others = [part.replace(source=SiteId(3)) for part in parts]

    assert [reassembly.add(part) for part in (parts[0], others[0])] == [None, None]
    assert (META.source, META.seq) in reassembly
    assert [reassembly.add(part) for part in (others[1], parts[1])] == [bytes(15), bytes(15)]


@pytest.mark.parametrize("change", [{"lts": 10}, {"mask": SiteMask(4)}, {"prev": 1}, {"count": 4}])
def test_fragments_that_do_not_agree_are_refused(change: dict[str, int]) -> None:
    first, second, _third = cut(bytes(25))
    reassembly = Reassembly()
    reassembly.add(first)

    assert reason_of(reassembly, second.replace(**change)) is Drop.INCONSISTENT


def test_a_whole_bundle_after_fragments_of_it_is_refused() -> None:
    reassembly = Reassembly()
    reassembly.add(cut(bytes(25))[0])

    assert reason_of(reassembly, cut(bytes(5))[0]) is Drop.INCONSISTENT


@pytest.mark.parametrize("held", [0, 2])
@pytest.mark.parametrize("size", [0, 4, 11])
def test_a_fragment_that_breaks_the_even_cut_is_refused(held: int, size: int) -> None:
    parts = cut(bytes(25))
    reassembly = Reassembly()
    reassembly.add(parts[held])
    if (held, size) == (2, 11):
        assert reassembly.add(parts[1].replace(chunk=bytes(size))) is None
    else:
        assert reason_of(reassembly, parts[1].replace(chunk=bytes(size))) is Drop.INCONSISTENT


def test_a_last_fragment_longer_than_the_others_is_refused() -> None:
    parts = cut(bytes(25))
    reassembly = Reassembly()
    reassembly.add(parts[0])

    assert reason_of(reassembly, parts[2].replace(chunk=bytes(11))) is Drop.INCONSISTENT


def test_a_bundle_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    reassembly = Reassembly(bundle_bytes_max=25)

    assert [reassembly.add(part) for part in cut(bytes(25))][-1] == bytes(25)
    first, second, third = cut(bytes(26))
    assert reassembly.add(first) is None
    assert reassembly.add(second) is None
    assert reason_of(reassembly, third) is Drop.LIMIT


def test_a_bundle_over_the_limit_is_refused_as_soon_as_it_must_be() -> None:
    reassembly = Reassembly(bundle_bytes_max=100)

    assert reason_of(reassembly, cut(bytes(101), 10)[0]) is Drop.LIMIT
    assert reason_of(reassembly, cut(bytes(20))[1].replace(index=64_999, count=65_000)) is Drop.LIMIT
    assert reason_of(reassembly, cut(bytes(5))[0].replace(chunk=bytes(101))) is Drop.LIMIT


def test_a_count_alone_costs_nothing() -> None:
    reassembly = Reassembly()

    reassembly.add(Routed(SiteId(1), 1, 1, SiteMask(1), 0, 0xFFFF, b"x"))

    assert reassembly.held_bytes == 1 + FRAGMENT_COST_BYTES


def test_fragments_are_refused_when_the_buffer_is_full_and_taken_when_space_is_freed() -> None:
    reassembly = Reassembly(held_bytes_max=2 * (10 + FRAGMENT_COST_BYTES))
    parts = cut(bytes(40))
    reassembly.add(parts[0])
    reassembly.add(parts[0].replace(seq=7))

    assert reason_of(reassembly, parts[1]) is Drop.LIMIT
    reassembly.forget(META.source, 7)
    assert reassembly.add(parts[1]) is None


def test_no_more_bundles_are_open_than_the_limit() -> None:
    reassembly = Reassembly(bundles_max=1)
    parts = cut(bytes(25))
    reassembly.add(parts[0])

    assert reason_of(reassembly, parts[0].replace(seq=7)) is Drop.LIMIT
    assert reassembly.add(parts[1]) is None
    assert reassembly.add(cut(b"whole")[0].replace(seq=7)) == b"whole"


def test_forgetting_frees_all_that_came() -> None:
    reassembly = Reassembly()
    for part in cut(bytes(45))[:3]:
        reassembly.add(part)

    reassembly.forget(META.source, META.seq)
    reassembly.forget(META.source, META.seq)

    assert (len(reassembly), reassembly.held_bytes) == (0, 0)


def test_an_empty_bundle_is_refused() -> None:
    assert reason_of(Reassembly(), Routed(SiteId(1), 1, 1, SiteMask(1), 0, 1, b"")) is Drop.LIMIT


def disturbed(rng: Random, routed: Routed) -> Routed:
    """An altered fragment, as an attacker would send it."""
    whole = bytes(routed.chunk)
    chunk = rng.choice([b"", whole[:-1], whole + b"x", rng.randbytes(rng.randrange(40))])
    count = rng.choice([1, routed.count + 1, 0xFFFF, routed.count])
    return rng.choice(
        [
            routed.replace(chunk=chunk),
            routed.replace(count=count, index=rng.randrange(count)),
            routed.replace(lts=routed.lts ^ 1),
            routed.replace(mask=SiteMask(routed.mask ^ 1)),
            routed.replace(seq=routed.seq ^ 1),
        ]
    )


@pytest.mark.slow
def test_any_fragments_in_any_order_keep_the_counts_right_and_give_whole_bundles() -> None:
    done, wholes = 0, 0

    @settings(max_examples=CASES // BATCH, deadline=None, database=None, derandomize=True)
    @given(seed=st.integers(0, 2**64 - 1))
    def batch(seed: int) -> None:
        nonlocal done, wholes
        rng = Random(seed)
        reassembly = Reassembly(bundle_bytes_max=200, held_bytes_max=5_000, bundles_max=6)
        bundles = [(a_meta(rng), rng.randbytes(rng.randint(1, 220))) for _ in range(8)]
        parts = [part for meta, bundle in bundles for part in fragment(meta, bundle, 60)]
        for _ in range(BATCH):
            part = rng.choice(parts)
            honest = rng.random() < 0.8
            whole = offer(reassembly, part if honest else disturbed(rng, part))
            assert whole is None or 0 < len(whole) <= 200
            wholes += whole is not None
            assert reassembly.held_bytes <= 5_000
            assert len(reassembly) <= 6
            done += 1
        for meta, _bundle in bundles:
            for seq in (meta.seq, meta.seq ^ 1):
                reassembly.forget(meta.source, seq)
        assert (len(reassembly), reassembly.held_bytes) == (0, 0)

    batch()

    assert done >= CASES
    assert wholes >= CASES // 50, f"{wholes} bundles came together"


def offer(reassembly: Reassembly, routed: Routed) -> bytes | None:
    held = (len(reassembly), reassembly.held_bytes)
    try:
        whole = reassembly.add(routed)
        return None if whole is None else bytes(whole)
    except PeerError:
        assert (len(reassembly), reassembly.held_bytes) == held
        return None


@settings(max_examples=200, deadline=None)
@given(bundle=st.binary(min_size=1, max_size=400), chunk_bytes=st.integers(1, 100), rng=st.randoms())
def test_fragments_of_every_size_are_assembled_in_any_order(
    bundle: bytes, chunk_bytes: int, rng: Random
) -> None:
    parts = cut(bundle, chunk_bytes)
    rng.shuffle(parts)
    reassembly = Reassembly()

    results = [reassembly.add(part) for part in parts]

    assert results == [None] * (len(parts) - 1) + [bundle]
    assert reassembly == Reassembly()
