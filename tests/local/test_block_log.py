"""A program that uses locks of real daemons records what it saw; the record is judged like a simulated one."""

from io import BytesIO

import pytest

from hopring import sync
from hopring.check.block_kinds import records_of
from hopring.check.block_record import verdicts
from hopring.check.locks import FENCES_RISE, LockGone, LockTaken
from hopring.check.trace import BlockNoted
from hopring.check.trace_files import read_json_lines, write_json_lines
from hopring.groups.names import STEP_BITS
from hopring.local.recorder import BlockLog, now_us

ROUNDS = 5
SECONDS_MAX = 60.0


def broken(events: list[BlockNoted]) -> list[str]:
    file = BytesIO()
    write_json_lines(events, file)
    file.seek(0)
    ((block, record),) = records_of(read_json_lines(file), quiet_end=True)
    return [one.property for one in verdicts(block.properties, record) if not one]


@pytest.mark.slow
def test_locks_of_real_daemons_keep_their_promises_by_the_record_of_a_program() -> None:
    log = BlockLog("locks")
    with sync.local_cluster({"eu": 1, "us": 1}, trace=False) as cluster:
        cluster.settled()
        with cluster.connect("eu1") as here, cluster.connect("us1") as there:
            groups = {"here": here.join("rows"), "there": there.join("rows")}
            for number in range(ROUNDS):
                for name, group in groups.items():
                    holder = f"{name}.{number}"
                    with group.lock("row", timeout_seconds=SECONDS_MAX) as fence:
                        epoch, step = divmod(fence, 1 << STEP_BITS)
                        log.note(LockTaken(now_us(), holder, "row", epoch, step, False, True, False))
                        log.note(LockGone(now_us(), holder, "row"))

    assert len(log.events) == 2 * 2 * ROUNDS
    assert broken(log.events) == []
    assert broken([*log.events[2:], *log.events[:2]]) == [FENCES_RISE]
