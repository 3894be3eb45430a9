"""A hopd with a load, for tests: `python -m tests.hopd.hopd_with_load FILE --name NAME ...`, as hopd is called.

The load takes the place of groups and sessions above `hopd.run`. Lines on stdin give the number of messages to
send per second, of all services in turn; the process ends with its stdin, so it never outlives the test.
"""

import os
import sys
from collections.abc import Sequence
from random import Random

from hopring.daemon.engines.host import EngineHost, OutputHandler
from hopring.daemon.hopd import run
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.trace_file import NUMBER_BYTES
from hopring.engine import EngineOutput
from hopring.ids import NEVER
from hopring.services import Service

SIZES_BYTES = (0, 10, 100, 100, 500, 500, 3_000, 20_000)


class Load:
    """Sends numbered messages at a given rate."""

    def __init__(self, loop: Loop, host: EngineHost) -> None:
        self._loop = loop
        self._host = host
        self._alarm = loop.alarm(self._send)
        self._dice = Random(os.getpid())
        self._sent = 0
        self._every_us = 0
        self._services = list(Service)
        loop.register(sys.stdin.fileno(), self._read)

    def handle_engine_outputs(self, events: Sequence[EngineOutput]) -> None:
        """There are no clients to serve."""

    def _read(self, _events: int) -> None:
        said = os.read(sys.stdin.fileno(), 4096)
        if not said:
            self._loop.unregister(sys.stdin.fileno())
            self._loop.stop()
            return
        rate = int(said.split()[-1])
        self._every_us = 1_000_000 // rate if rate else 0
        self._alarm.set(self._loop.now_us() if rate else NEVER)

    def _send(self) -> None:
        if self._host.queue_open:
            self._sent += 1
            number = self._sent.to_bytes(NUMBER_BYTES, "little")
            service = self._services[self._sent % len(self._services)]
            self._host.submit(service, number + bytes(self._dice.choice(SIZES_BYTES)))
        self._alarm.set(self._loop.now_us() + self._every_us)


def above(loop: Loop, host: EngineHost) -> OutputHandler:
    """Makes the load, as the layer above the engine."""
    return Load(loop, host).handle_engine_outputs


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], above))
