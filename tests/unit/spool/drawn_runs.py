"""Runs of records drawn by Hypothesis."""

from dataclasses import replace

from hypothesis import strategies as st

from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.spool.record import GroupStep, RecordHeader, RecordKind, RecordRun, run_of
from hopring.wire.envelope import encode_envelope

u16 = st.integers(0, 2**16 - 1)


u64 = st.integers(0, 2**64 - 1)


names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=8)


views = st.builds(ViewId, u64, u16.map(DaemonId), u64.map(Incarnation))


header = st.builds(
    RecordHeader,
    st.sampled_from(RecordKind),
    st.integers(-(2**63), 2**63 - 1),
    names | st.just(""),
    st.lists(names, max_size=3).map(tuple),
    st.none() | st.sampled_from(Service),
    st.builds(Place, views, u64, u16),
    st.builds(GroupStep, views, st.integers(-(2**63), 2**63 - 1)),
)


envelopes = st.just(b"") | st.dictionaries(names, st.text(max_size=9), min_size=1, max_size=3).map(
    encode_envelope
)


@st.composite
def some_runs(draw: st.DrawFn) -> list[RecordRun]:
    runs = []
    for its in draw(st.lists(header, min_size=1, max_size=5)):
        bodies = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=6))
        types = [draw(u16) for _ in bodies]
        own = draw(st.lists(envelopes, min_size=len(bodies), max_size=len(bodies)) | st.just([]))
        runs.append(replace(run_of(its, bodies, types, own), number=draw(st.integers(0, 1000))))
    return runs
