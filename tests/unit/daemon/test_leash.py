"""A daemon ends with what it hangs on."""

import os
from pathlib import Path

from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.environment import end_with_descriptor


def test_the_end_of_a_pipe_is_told_once_and_what_is_written_is_not(loop: Loop) -> None:
    left: list[None] = []
    reading, writing = os.pipe()
    end_with_descriptor(loop, reading, lambda: left.append(None))
    os.write(writing, b"anything")
    loop.turn()

    assert left == []
    os.close(writing)
    run_until(loop, lambda: bool(left))
    loop.call_soon(lambda: None)
    loop.turn()
    assert len(left) == 1
    os.close(reading)


def test_a_file_has_already_ended(loop: Loop, tmp_path: Path) -> None:
    left: list[None] = []
    with (tmp_path / "file").open("w+") as file:
        end_with_descriptor(loop, file.fileno(), lambda: left.append(None))

    assert len(left) == 1
