"""Spools of version 1 of the format, which has no headers of messages: read, and continued in a new segment."""

from base64 import b85decode
from pathlib import Path
from zlib import decompress

from tests.unit.spool.spool_samples import bodies_in, messages

from hopring.spool.files import bases, index_path, log_path
from hopring.spool.format import FORMAT_VERSION
from hopring.spool.reading import bounds, read, read_head
from hopring.spool.record import RecordHeader, RecordKind, run_of
from hopring.spool.verify import verify
from hopring.spool.writer import SpoolWriter
from hopring.wire.envelope import encode_envelope

# Two appends, of b"one" and b"two" and of b"three", as a hopring of version 1 wrote them.
INDEX = (
    b"c-r&u5AgJJagAVPU|=Z!{9ro+6j+q6p3i^;ETA+8P$3hLo~bft>f{7AhRwVV"
    b"dqLtX$0zWCXeOvS2SzA^5sVlvsY29?W^R}b5-#->wgu4uQQ{Nq"
)
LOG = (
    b"c-r&u4+swM_xE9BU|?WjK!EoObEZyCU}Gr%{9t>M=g;gdEhb$Ba?;{?H#FoXElh9laPsj6sp9}@WCGG4{UDkjh}n?L`40s%RS@QZ_?vkh_6o1v"
    b"P|FTgmkgyD8Sn!~Cw?%^ghQT@fH^R6RwOZIG&jQlC)7V6pq!YOm#CatYFJW~n37t|ke`=YQl8Ji01F3@!Hj6(z>4HfSU6l#MGXhh%nh@ji}MDehX"
    b"WIVaBzZ#10xl~ft3XRmt+*BrUJzQTo6!2"
)


def old_spool(root: Path) -> Path:
    directory = root / "g"
    directory.mkdir(parents=True)
    log_path(directory, 0).write_bytes(decompress(b85decode(LOG)))
    index_path(directory, 0).write_bytes(decompress(b85decode(INDEX)))
    assert read_head(directory, 0).version == 1
    return directory


def test_it_is_read_and_verified(tmp_path: Path) -> None:
    directory = old_spool(tmp_path)

    assert bodies_in(directory) == [b"one", b"two", b"three"]
    assert all(not record.headers for record in read(directory, 0, 3))
    assert verify(directory).findings == ()


def test_a_writer_finishes_its_segment_and_continues_in_one_that_old_hoprings_refuse(tmp_path: Path) -> None:
    directory = old_spool(tmp_path)
    before = log_path(directory, 0).read_bytes()
    envelope = encode_envelope({"source": "desk 7"})

    with SpoolWriter(tmp_path, "g") as writer:
        writer.append([run_of(RecordHeader(RecordKind.MESSAGE, 9), [b"four"], envelopes=[envelope])])

    assert bases(directory) == [0, 3]
    assert log_path(directory, 0).read_bytes() == before
    assert read_head(directory, 3).version == FORMAT_VERSION
    assert bodies_in(directory) == [b"one", b"two", b"three", b"four"]
    assert [dict(record.headers) for record in read(directory, 2, 4)] == [{}, {"source": "desk 7"}]
    assert bounds(directory) == (0, 4)


def test_an_empty_segment_of_it_is_replaced(tmp_path: Path) -> None:
    directory = old_spool(tmp_path)
    log = log_path(directory, 0)
    head_bytes = read_head(directory, 0).size_bytes
    log.write_bytes(log.read_bytes()[:head_bytes])
    index_path(directory, 0).write_bytes(index_path(directory, 0).read_bytes()[:32])

    with SpoolWriter(tmp_path, "g") as writer:
        writer.append(messages(b"one"))

    assert bases(directory) == [0]
    assert read_head(directory, 0).version == FORMAT_VERSION
    assert bodies_in(directory) == [b"one"]
