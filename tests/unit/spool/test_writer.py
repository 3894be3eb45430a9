"""Writer and readers on real files, without faults."""

import os
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.support.waiting import until
from tests.unit.spool.spool_samples import VIEW, bodies_in, messages

from hopring.spool.encode import AppendMark
from hopring.spool.errors import NotASpool, OffsetMissing, SpoolOwned, WriterClosed
from hopring.spool.files import archive_path, bases, directory_of, safe_name, spools
from hopring.spool.reading import Bounds, Slice, after_place, bounds, plan, read, since_time, slice_blocks
from hopring.spool.record import RecordKind
from hopring.spool.retention import Retention, consumers, forget, permit
from hopring.spool.verify import verify
from hopring.spool.writer import Appended, SpoolOptions, SpoolWriter

SMALL = SpoolOptions(segment_bytes=1000)


class Clock:
    def __init__(self) -> None:
        self.now_us = 1_000_000_000

    def __call__(self) -> int:
        return self.now_us


def test_appended_records_are_read_with_all_fields(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "trades") as writer:
        assert writer.append(messages(b"one", b"two", lts=5)) == Appended(0, 2)
        assert writer.synced_end == writer.end == 2

        first, second = read(writer.directory, 0, 2)

    assert (first.offset, first.number, first.data, first.type) == (0, 0, b"one", 0)
    assert (second.offset, second.number, second.data) == (1, 1, b"two")
    assert first.header.kind is RecordKind.MESSAGE
    assert first.header.sender == "#anna#eu1"
    assert first.header.groups == ("trades",)
    assert (first.header.place.view, first.header.place.lts) == (VIEW, 5)


def test_a_spool_that_is_opened_again_continues(tmp_path: Path) -> None:
    for number in range(3):
        with SpoolWriter(tmp_path, "trades") as writer:
            assert writer.end == number
            writer.append(messages(b"%d" % number))

    assert bodies_in(directory_of(tmp_path, "trades")) == [b"0", b"1", b"2"]


def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with (
        SpoolWriter(tmp_path, "trades"),
        pytest.raises(SpoolOwned, match=rf"process {os.getpid()}\); stop that process first"),
    ):
        SpoolWriter(tmp_path, "trades")

    SpoolWriter(tmp_path, "trades").close()


def test_a_closed_writer_refuses_calls(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, "trades")
    writer.close()
    writer.close()

    with pytest.raises(WriterClosed):
        writer.append(messages(b"x"))


def tick_until(writer: SpoolWriter, synced_end: int) -> None:
    """Ticks until the sync in the background is complete."""

    def synced() -> bool:
        writer.tick()
        return writer.synced_end >= synced_end

    until(synced, look_seconds=0.001)


def test_with_an_interval_records_are_visible_after_the_sync(tmp_path: Path) -> None:
    clock = Clock()
    with SpoolWriter(tmp_path, "trades", SpoolOptions(sync_seconds=1), clock=clock) as writer:
        writer.append(messages(b"one"))
        assert (writer.end, writer.synced_end) == (1, 0)
        assert bodies_in(writer.directory) == []

        clock.now_us += 1_000_000
        tick_until(writer, 1)

        assert bodies_in(writer.directory) == [b"one"]

        writer.append(messages(b"two"))
        assert bodies_in(writer.directory) == [b"one"]

    assert bodies_in(writer.directory) == [b"one", b"two"]


def test_segments_roll_by_size_and_by_age(tmp_path: Path) -> None:
    clock = Clock()
    options = SpoolOptions(segment_bytes=1000, segment_seconds=10)
    with SpoolWriter(tmp_path, "trades", options, clock=clock) as writer:
        for _ in range(3):
            writer.append(messages(bytes(400)))
        assert bases(writer.directory) == [0, 1, 2]

        clock.now_us += 10_000_000
        writer.append(messages(b"x"))
        assert bases(writer.directory) == [0, 1, 2, 3]
        clock.now_us += 10_000_000
        writer.tick()
        assert bases(writer.directory) == [0, 1, 2, 3, 4]
        clock.now_us += 10_000_000
        writer.tick()  # An empty segment does not roll.
        assert bases(writer.directory) == [0, 1, 2, 3, 4]

    assert len(bodies_in(writer.directory)) == 4


def test_a_batch_of_an_application_is_appended_once_also_by_later_writers(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "trades", SMALL) as writer:
        writer.append(messages(b"a0"), AppendMark("app", 0))
        writer.append(messages(b"b7"), AppendMark("other", 7))
        assert writer.append(messages(b"a0"), AppendMark("app", 0)) == Appended(2, 2, replayed=True)
    with SpoolWriter(tmp_path, "trades", SMALL) as writer:
        assert (writer.last_batch("app"), writer.last_batch("other"), writer.last_batch("no")) == (0, 7, None)
        assert writer.append(messages(b"a0"), AppendMark("app", 0)).replayed
        assert writer.append(messages(b"a1"), AppendMark("app", 1)) == Appended(2, 3)
        writer.append(messages(bytes(900)))  # Another segment, whose head contains the batches before.
        writer.roll()
    with SpoolWriter(tmp_path, "trades", SMALL) as writer:
        assert (writer.last_batch("app"), writer.last_batch("other")) == (1, 7)

    assert bodies_in(writer.directory)[:3] == [b"a0", b"b7", b"a1"]


def test_a_plan_is_cut_at_segments_and_at_a_number_of_records(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "trades") as writer:
        writer.append(messages(*[b"x"] * 5))
        writer.roll()
        writer.append(messages(*[b"y"] * 5))
        place = str(writer.directory)

    wanted = plan(writer.directory, 1, 9, records_max=3)

    assert wanted == [
        Slice(place, 0, 1, 4),
        Slice(place, 0, 4, 5),
        Slice(place, 5, 5, 8),
        Slice(place, 5, 8, 9),
    ]
    assert plan(writer.directory, 4, 4) == []
    back = [
        record.offset
        for portion in wanted
        for block in slice_blocks(portion)
        for record in block.records(portion.start, portion.end)
    ]
    assert back == list(range(1, 9))


@pytest.mark.parametrize(("start", "end", "named"), [(0, 3, 0), (2, 7, 6)])
def test_a_plan_of_offsets_that_are_not_there_is_an_error(
    tmp_path: Path, start: int, end: int, named: int
) -> None:
    options = SpoolOptions(segment_bytes=1, retention=Retention(bytes_max=1))
    with SpoolWriter(tmp_path, "trades", options) as writer:
        for _ in range(6):
            writer.append(messages(b"x", b"y"))
            writer.append(messages(b"z"))
        writer.directory.rename(tmp_path / "kept")  # Only to show that a plan needs no writer.
    directory = tmp_path / "kept"
    known = bounds(directory)
    shift = known.start - 2

    with pytest.raises(OffsetMissing) as caught:
        plan(directory, start + shift, known.end if end == 3 else known.end + 1)

    assert caught.value.offset == (start + shift if named == 0 else known.end)
    assert (caught.value.start, caught.value.end) == known


@pytest.mark.parametrize(
    "name",
    [
        "x.new",
        ".new",
        "a.1.new",
        "x%2Enew",
        "..",
        ".",
        "a/../../b",
        "/etc/passwd",
        "",
        "a b\n",
        "\x1b]0;t\x07",
        "ü",
    ],
)
def test_a_consumer_may_have_any_name(tmp_path: Path, name: str) -> None:
    options = SpoolOptions(segment_bytes=1, retention=Retention(bytes_max=1))
    with SpoolWriter(tmp_path / "root", "a", options) as writer:
        writer.append(messages(b"0"))
        permit(writer.directory, name, 0)
        for body in (b"1", b"2", b"3"):
            writer.append(messages(body))
        assert bases(writer.directory)[0] == 0, "it needs all records"
        assert list(consumers(writer.directory).values()) == [0]
        (file,) = (writer.directory / "consumers").iterdir()
        assert file.is_file()
        assert name in (unquote(file.name), "")
        forget(writer.directory, name)
        assert consumers(writer.directory) == {}
        writer.append(messages(b"4"))
        assert bases(writer.directory)[0] > 0
    assert sorted(tmp_path.rglob("*"), key=str)[0] == tmp_path / "root"
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_consumers_of_similar_names_are_told_apart(tmp_path: Path) -> None:
    names = ["x.new", "x%2Enew", "x", "x.", "X", "~", "a" * 200, "a" * 201]
    with SpoolWriter(tmp_path, "a") as writer:
        for number, name in enumerate(names):
            permit(writer.directory, name, number)

        found = consumers(writer.directory)

    assert sorted(found.values()) == list(range(len(names)))
    assert {name: found[name] for name in names[:5]} == {name: at for at, name in enumerate(names[:5])}


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"9" * 5000, b"-1", "\u0665".encode()])
def test_a_damaged_file_of_a_consumer_keeps_all_records(tmp_path: Path, damaged: bytes) -> None:
    with SpoolWriter(tmp_path, "a") as writer:
        permit(writer.directory, "job", 7)
        (writer.directory / "consumers" / "job").write_bytes(damaged)

    assert consumers(writer.directory) == {"job": 0}


def test_a_group_that_is_called_like_a_file_of_a_spool_is_a_spool_of_its_own(tmp_path: Path) -> None:
    names = [f"{0:020}.log", f"{1:020}.idx", "lock", "consumers", "archive", "x.new", "..."]
    for name in names:
        with SpoolWriter(tmp_path, name) as writer:
            writer.append(messages(b"x"))

    assert bases(tmp_path) == []
    assert len(list(spools(tmp_path))) == len(names)
    assert all(bodies_in(directory) == [b"x"] for directory in spools(tmp_path))


def test_retention_by_size_by_age_and_by_consumers(tmp_path: Path) -> None:
    clock = Clock()
    retention = Retention(bytes_max=3500, seconds_max=100)
    options = SpoolOptions(segment_bytes=1, retention=retention)
    with SpoolWriter(tmp_path, "trades", options, clock=clock) as writer:
        permit(writer.directory, "job", 0)
        for _ in range(6):
            writer.append(messages(bytes(700)))
        assert bounds(writer.directory) == Bounds(0, 6)  # The job has not released anything.

        permit(writer.directory, "job", 2)
        permit(writer.directory, "other", 9)
        writer.tick()
        assert bounds(writer.directory) == Bounds(2, 6)
        assert consumers(writer.directory) == {"job": 2, "other": 9}

        forget(writer.directory, "job")
        writer.tick()
        assert bounds(writer.directory) == Bounds(3, 6)  # Now three fit the size.

        clock.now_us += 101_000_000
        writer.tick()
        assert bounds(writer.directory) == Bounds(6, 6)  # The open segment stays.


def test_a_slice_whose_segment_was_removed_meanwhile_is_an_error(tmp_path: Path) -> None:
    options = SpoolOptions(segment_bytes=1, retention=Retention(bytes_max=1))
    with SpoolWriter(tmp_path, "trades", options) as writer:
        writer.append(messages(b"x"))
        (portion,) = plan(writer.directory, 0, 1)
        reading = slice_blocks(portion)
        for _ in range(3):
            writer.append(messages(b"y"))

        with pytest.raises(OffsetMissing, match="offset 0 was removed by retention; begin at 3"):
            next(reading)


def test_a_reader_that_has_begun_is_not_disturbed_by_retention(tmp_path: Path) -> None:
    options = SpoolOptions(segment_bytes=1000, retention=Retention(bytes_max=1))
    with SpoolWriter(tmp_path, "trades", options) as writer:
        writer.append(messages(b"x"))
        writer.append(messages(b"y"))
        records = read(writer.directory, 0, 2)
        first = next(records)
        for _ in range(3):
            writer.append(messages(bytes(900)))

        assert bounds(writer.directory).start > 0
        assert [first.data, *[one.data for one in records]] == [b"x", b"y"]


def test_retention_may_wait_for_the_archive(tmp_path: Path) -> None:
    options = SpoolOptions(segment_bytes=1, retention=Retention(bytes_max=1, archived_only=True))
    with SpoolWriter(tmp_path, "trades", options) as writer:
        for _ in range(3):
            writer.append(messages(b"x"))
        assert bounds(writer.directory).start == 0

        path = archive_path(writer.directory, 0)
        path.parent.mkdir()
        whole = b"PAR1" + b"columns" + b"footer" + (6).to_bytes(4, "little") + b"PAR1"
        for size_bytes in range(len(whole)):  # A disk that was full, or a copy that was cut off.
            path.write_bytes(whole[:size_bytes])
            writer.tick()
        path.write_bytes(whole.replace(b"\6\0", b"\6\1"))  # The footer would begin before the file.
        writer.tick()
        assert bounds(writer.directory).start == 0

        path.write_bytes(whole)
        writer.tick()
        assert bounds(writer.directory).start == 1


def test_names_of_groups_are_safe_for_files_and_differ() -> None:
    names = ["trades", "a/b", "..", ".", "a b", "ä", "%2F", "/", "x" * 128, "x" * 127 + "y", "ä" * 60, "CON~"]

    safe = [safe_name(name) for name in names]

    assert len(set(safe)) == len(names)
    assert all(len(name) <= 120 and "/" not in name and not name.startswith(".") for name in safe)
    assert safe[:3] == ["trades", "a%2Fb", "%2E."]


def test_spools_are_listed_and_other_directories_are_not(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for group in ("b", "a/x"):
        SpoolWriter(tmp_path, group).close()

    assert [path.name for path in spools(tmp_path)] == ["a%2Fx", "b"]


def test_a_group_does_not_write_into_the_spool_of_another(tmp_path: Path) -> None:
    SpoolWriter(tmp_path, "a").close()
    (tmp_path / "a").rename(tmp_path / "b")

    with pytest.raises(NotASpool, match="the spool of 'a'"):
        SpoolWriter(tmp_path, "b")


def test_a_foreign_file_among_the_segments_is_named(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "a") as writer:
        writer.append(messages(b"x"))
    (writer.directory / f"{1:020}.log").write_bytes(b"a letter to my aunt")

    with pytest.raises(NotASpool, match="not a segment of a spool"):
        SpoolWriter(tmp_path, "a")

    assert [finding.what for finding in verify(writer.directory).findings] == ["not a segment of a spool"]


def test_a_whole_spool_is_verified(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "a", SMALL) as writer:
        for _ in range(5):
            writer.append(messages(bytes(300), b"x"))

    verdict = verify(writer.directory)

    assert (verdict.records, verdict.blocks, verdict.findings) == (10, 5, ())


def test_two_writers_of_the_same_stream_write_the_same(tmp_path: Path) -> None:
    for root in ("one", "two"):
        with SpoolWriter(tmp_path / root, "trades") as writer:
            writer.append(messages(b"a", b"b", lts=3))
            writer.append(messages(b"c", lts=4))

    first, second = (list(read(tmp_path / root / "trades", 0, 3)) for root in ("one", "two"))

    assert first == second


def test_the_offset_behind_a_bundle_is_found_by_its_place(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "trades", SMALL) as writer:
        assert after_place(writer.directory, messages(b"")[0].header.place) is None
        for lts in range(6):
            writer.append(messages(bytes(300), b"x", lts=lts))

    assert len(bases(writer.directory)) > 1
    found = [after_place(writer.directory, messages(b"", lts=lts)[0].header.place) for lts in range(7)]
    assert found == [2, 4, 6, 8, 10, 12, None]


def test_the_first_offset_since_a_time_is_found(tmp_path: Path) -> None:
    clock = Clock()
    begin_us = clock.now_us
    with SpoolWriter(tmp_path, "trades", SMALL, clock=clock) as writer:
        for _ in range(6):
            writer.append(messages(bytes(300), b"x"))
            clock.now_us += 1_000_000

        assert len(bases(writer.directory)) > 1
        found = [since_time(writer.directory, begin_us + at * 500_000) for at in range(-1, 12)]

    assert found == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12]


def test_a_long_append_stays_in_one_segment(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "trades", SMALL) as writer:
        writer.append(messages(b"x"))
        writer.append(messages(*[bytes(1_500_000)] * 6), AppendMark("app", 3))
        assert bases(writer.directory) == [0, 1]

    assert [len(body) for body in bodies_in(writer.directory)] == [1] + [1_500_000] * 6
