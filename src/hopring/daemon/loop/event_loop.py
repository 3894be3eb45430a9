"""The epoll loop: descriptors, alarms, and one flush at the end of each turn.

A turn calls the handlers of all descriptors that are ready, rings the alarms that are due, and then runs the
calls that were put off to the end of the turn with `call_soon`: there the links send, so that all events of one
turn share packets. The loop sleeps only when a turn finds nothing to do, and a busy loop polls for a moment
before that (sleeping.py).

A handler that raises ends the loop with its traceback: it is a bug. Every socket of the daemon catches OSError
at its own system call and tells its owner, so an error of a disk is never mistaken for that of a socket.

Alarms are kept in a hierarchical timer wheel: arming is O(1), and nothing is ever cancelled. The kernel's timer
descriptor wakes the loop (system/timerfd.py).

Implements  Varghese, Lauck (SOSP 1987), scheme 7: hierarchical timing wheels.
Invariants  an item of the wheel comes out exactly once, never before its deadline, and less than SLOT_US after
            it if the loop runs then; items of different slots come out in the order of their deadlines.
Deviation   occupied slots are bits of an integer, so an empty stretch of any length is skipped in one step.
"""

import select
import signal
import socket
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from hopring.daemon.loop.sleeping import LingerPolicy, StallDetector
from hopring.ids import NEVER
from hopring.system.kernel import kernel

SLOT_US: Final = 64
"""The granularity: deadlines are rounded up to a multiple of this."""

_SLOT_SHIFT: Final = 6
_LEVEL_SHIFT: Final = 6
_LEVEL_SLOTS: Final = 1 << _LEVEL_SHIFT
_LOOKED_AT_MAX: Final = 16
_LEVELS: Final = 10  # Enough for every deadline below NEVER: 6 bits of time to a slot, 6 to a level.

Item = TypeVar("Item")


class TimerWheel(Generic[Item]):
    """Items by deadline. A tick is a slot's number since time 0; level n has slots of 64**n ticks."""

    __slots__ = ("_due", "_occupied", "_slots", "_tick", "next_us")

    def __init__(self, now_us: int) -> None:
        self._tick = now_us >> _SLOT_SHIFT  # All items up to here have come out.
        self._due: list[Item] = []
        self._slots: list[dict[int, list[tuple[int, Item]]]] = [{} for _ in range(_LEVELS)]
        self._occupied = [0] * _LEVELS  # For each level a bit for each slot that holds items.
        self.next_us = NEVER
        """When to call `advance`: when the first item is due, or earlier, to sort a far and crowded slot."""

    def arm(self, deadline_us: int, item: Item) -> None:
        """Adds an item; the deadline NEVER needs no special case: it does not come."""
        tick = (deadline_us + SLOT_US - 1) >> _SLOT_SHIFT
        if tick <= self._tick:
            self._due.append(item)
            self.next_us = self._tick << _SLOT_SHIFT
        else:
            self._place(tick, item)
            self.next_us = min(self.next_us, tick << _SLOT_SHIFT)

    def advance(self, now_us: int) -> list[Item]:
        """All items whose slots are over, the earlier slots first."""
        target = now_us >> _SLOT_SHIFT
        out, self._due = self._due, []
        level, start = self._first()
        while start <= target:
            self._tick = start
            for tick, item in self._take(level, start):
                if tick == start:
                    out.append(item)
                else:
                    self._place(tick, item)
            level, start = self._first()
        self._tick = max(self._tick, target)
        self._plan(level, start)
        return out

    def take_put_off(self, wanted_us: Callable[[Item], int]) -> list[Item]:
        """Removes and returns the next items if they are wanted later than they were armed for."""
        level, start = self._first()
        items = self._slots[level].get(_slot(level, start), [])
        if self._due or len(items) > _LOOKED_AT_MAX:
            return []
        out = [item for tick, item in items if wanted_us(item) > tick << _SLOT_SHIFT]
        if out:
            self._take(level, start)
            for tick, item in items:
                if wanted_us(item) <= tick << _SLOT_SHIFT:
                    self._place(tick, item)
            self._plan(*self._first())
        return out

    def _plan(self, level: int, start: int) -> None:
        """Sets `next_us` to the first item of the first slot; if the slot is crowded, to its start.

        Waking up costs far more than checking a few items.
        """
        items = self._slots[level].get(_slot(level, start), ())
        first = min([tick for tick, _ in items]) if 0 < len(items) <= _LOOKED_AT_MAX else start
        self.next_us = min(first << _SLOT_SHIFT, NEVER)

    def _place(self, tick: int, item: Item) -> None:
        """Puts an item into the slot given by the highest bits in which its tick differs from now."""
        level = ((tick ^ self._tick).bit_length() - 1) // _LEVEL_SHIFT
        shift = level * _LEVEL_SHIFT
        slot = (tick >> shift) % _LEVEL_SLOTS
        self._slots[level].setdefault(slot, []).append((tick, item))
        self._occupied[level] |= 1 << slot

    def _first(self) -> tuple[int, int]:
        """The level and the first tick of the earliest occupied slot."""
        for level, occupied in enumerate(self._occupied):
            if occupied:
                # Of one level, all occupied slots lie in the same round and ahead of the current one.
                slot = (occupied & -occupied).bit_length() - 1
                shift = level * _LEVEL_SHIFT
                round_start = self._tick >> shift + _LEVEL_SHIFT << _LEVEL_SHIFT
                return level, (round_start | slot) << shift
        return 0, NEVER

    def _take(self, level: int, start: int) -> list[tuple[int, Item]]:
        slot = _slot(level, start)
        self._occupied[level] &= ~(1 << slot)
        return self._slots[level].pop(slot)


def _slot(level: int, tick: int) -> int:
    return (tick >> level * _LEVEL_SHIFT) % _LEVEL_SLOTS


READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP
"""Always watched for; the handler's next system call reports the error."""

EVENTS_MAX: Final = 256
"""Limit of descriptors served in one turn; the rest are first in the next one."""

SLEEP_US_MAX: Final = 3_600_000_000
"""The longest sleep, so that the kernel is never given a time that it cannot represent."""

NAP_US: Final = 1_000
NAPS_MAX: Final = 8
"""After NAPS_MAX consecutive sleeps shorter than NAP_US the loop is busy, and does not postpone its timer."""

UNKNOWN: Final = -1
"""The cached time, before it is read."""

ROUNDS_MAX: Final = 4
"""How many rounds of `call_soon` run before epoll is asked again. A client's message needs that many: it is
submitted, sent, delivered, and written."""

GUEST_TURNS_MAX: Final = 64
"""How many turns a loop within another one takes at once."""

Ready = Callable[[int], None]
"""A handler, called with those of READABLE, WRITABLE and BROKEN that hold. It must not block."""


def _do_nothing() -> None:
    """Stands for the call of an alarm that was dropped."""


class Alarm:
    """A deadline that moves. Moving it later is free: the wheel fires early, and the alarm is armed again."""

    __slots__ = ("_call", "_entries", "_wheel", "at_us")

    def __init__(self, wheel: "TimerWheel[Alarm]", call: Callable[[], None]) -> None:
        self._wheel = wheel
        self._call = call
        self._entries: list[int] = []  # Our entries in the wheel, each earlier than the last.
        self.at_us = NEVER
        """The deadline; the alarm rings once for each setting."""

    def set(self, at_us: int) -> None:
        """Moves the deadline to this time."""
        self.at_us = at_us
        if at_us < NEVER and (not self._entries or at_us < self._entries[-1]):
            self._entries.append(at_us)
            self._wheel.arm(at_us, self)

    def drop(self) -> None:
        """Forgets what it calls, for good: so its owner, which it would refer to, is freed at once."""
        self.at_us = NEVER
        self._call = _do_nothing

    def ring(self, now_us: int) -> None:
        """Called by the wheel when an entry is due."""
        self._entries.pop()
        if now_us < self.at_us:
            self.set(self.at_us)
        else:
            self.at_us = NEVER
            self._call()


class Loop:
    """The event loop of one thread; only that thread may call its methods."""

    def __init__(self) -> None:
        self._kernel = kernel()
        self._monotonic_ns = self._kernel.monotonic_ns
        self.lingering = LingerPolicy()
        self._running = False
        self._now_us = UNKNOWN
        self._epoll = self._kernel.poller()
        self._handlers: dict[int, Ready] = {}
        self._newcomers: set[int] = set()  # Registered in this turn: its events are another descriptor's.
        self._wheel: TimerWheel[Alarm] = TimerWheel(self.now_us())
        self._timer = self._kernel.timer()
        self._slept_at_us = 0
        self._naps = 0
        self._timer_us = NEVER  # When the timer descriptor will wake us.
        self._soon: list[Callable[[], None]] = []
        self._signals: _Signals | None = None
        self._epoll.register(self._timer.fileno(), select.EPOLLIN | select.EPOLLET)
        self._stalls = StallDetector(self._kernel.ahead_us())
        self._slept = False  # Before this turn.
        self._rests = False  # Within another loop, which sleeps for both when this turn ends.
        self.on_stall: list[Callable[[int], None]] = []
        """Called with the microseconds for which the loop did not run, before it serves pending events."""

    def now_us(self) -> int:
        """The monotonic clock; it is read once for each handler and each round of `call_soon`."""
        if self._now_us == UNKNOWN or not self._running:
            self._now_us = self._monotonic_ns() // 1_000
        return self._now_us

    def later(self) -> None:
        """Makes `now_us` read the clock again, because another event begins."""
        self._now_us = UNKNOWN

    @property
    def alarm_due(self) -> bool:
        """Whether an alarm rings in this turn; events that arrived before it must be handled by then."""
        return self._wheel.next_us - SLOT_US <= self.now_us()

    def register(self, fd: int, ready: Ready, events: int = READABLE) -> None:
        """Watches a descriptor until `unregister`, which must come before it is closed."""
        assert fd not in self._handlers, "a descriptor has one handler"
        self._epoll.register(fd, events)
        self._handlers[fd] = ready
        self._newcomers.add(fd)

    def modify(self, fd: int, events: int) -> None:
        """Watches a descriptor for other events from now on."""
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """Stops watching; events already found in this turn are dropped."""
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def alarm(self, call: Callable[[], None]) -> Alarm:
        """A new alarm, not set."""
        return Alarm(self._wheel, call)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Calls this at the end of the turn, in the order of the calls."""
        self._soon.append(call)

    def on_signals(self, call: Callable[[int], None], signals: Iterable[int]) -> None:
        """Makes these signals events like any other; only in the main thread, and once."""
        assert self._signals is None, "signals have one handler"
        self._signals = _Signals(call, signals)
        self.register(self._signals.fileno(), self._signals.ready)

    def run(self) -> None:
        """Runs turns until `stop` is called."""
        self._running = True
        while self._running:
            self.turn()

    def stop(self) -> None:
        """Ends `run` after this turn."""
        self._running = False

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called since it runs, or it does not run."""
        return not self._running

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to serve: for another event loop."""
        return self._epoll.fileno()

    def serve(self) -> bool:
        """Within another event loop: serves what there is, and does not sleep; whether there may be more."""
        self._running = True  # As far as stalls and the cached time are concerned.
        return all(self.turn(sleeps=False) for _ in range(GUEST_TURNS_MAX))

    def turn(self, sleeps: bool = True) -> bool:
        """Serves all ready events; sleeps first if there are none. Returns whether there were any."""
        self._newcomers.clear()
        self._rests = False
        found = self._wait(sleeps)
        busy = bool(found)
        self._now_us = UNKNOWN
        if self._running and not self._rests:
            self._notice_stall()
        for fd, events in found:
            ready = self._handlers.get(fd)
            if ready is not None and fd not in self._newcomers:
                self._now_us = UNKNOWN
                ready(events)
        self._now_us = UNKNOWN
        now_us = self.now_us()
        if self._wheel.next_us <= now_us:
            for alarm in self._wheel.advance(now_us):
                alarm.ring(now_us)
                busy = True
        for _ in range(ROUNDS_MAX):
            if not self._soon:
                break
            busy = True
            soon, self._soon = self._soon, []
            for call in soon:
                call()
            self._now_us = UNKNOWN
        return busy

    def _wait(self, sleeps: bool = True) -> list[tuple[int, int]]:
        # A poll costs half a microsecond; setting the timer, ten times that on a virtual machine; waking up,
        # more than a hundred times. So a busy loop never sets the timer, and one that sleeps often sets it only
        # if the next alarm is earlier than its present time; but one that sleeps long is not woken for nothing.
        events = self._epoll.poll(0, EVENTS_MAX)
        if events or self._soon:
            return events
        now_us = self.now_us()
        while self._wheel.next_us > now_us and (moved := self._wheel.take_put_off(_wanted_us)):
            for alarm in moved:
                alarm.ring(now_us)
        next_us = self._wheel.next_us
        if next_us <= now_us:
            return []
        until_us = self.lingering.until_us(now_us) if sleeps else now_us
        if until_us > now_us:
            events = self._linger(min(until_us, next_us))
            if events or until_us >= next_us:
                return events
        self._naps = self._naps + 1 if now_us - self._slept_at_us < NAP_US else 0
        self._slept_at_us = now_us
        put_off = next_us > self._timer_us and self._naps < NAPS_MAX
        if next_us < self._timer_us or self._timer_us <= now_us or put_off:
            self._timer_us = min(next_us, now_us + SLEEP_US_MAX)
            self._timer.set(self._timer_us)
        if self._running and self._notice_stall():
            return []
        self._stalls.sleeps(self._timer_us)
        self._slept = True
        self._rests = not sleeps
        return self._epoll.poll(-1 if sleeps else 0, EVENTS_MAX)

    def _notice_stall(self) -> bool:
        """Reports a stall: the process was stopped, starved or busy, or the host suspended."""
        slept, self._slept = self._slept, False
        now_us = self.now_us()
        stall_us = self._stalls.woke(now_us, self._kernel.ahead_us()) if slept else self._stalls.runs(now_us)
        if stall_us:
            for call in self.on_stall:
                call(stall_us)
        return stall_us > 0

    def _linger(self, until_us: int) -> list[tuple[int, int]]:
        """Polls until there is an event, or until this time; yields the processor in between."""
        self._now_us = UNKNOWN
        while True:
            self._kernel.yield_processor()
            events = self._epoll.poll(0, EVENTS_MAX)
            if events or self._monotonic_ns() // 1_000 >= until_us:
                return events

    def close(self) -> None:
        """Closes all descriptors that the loop itself opened."""
        if self._signals is not None:
            self.unregister(self._signals.fileno())
            self._signals.close()
        self._timer.close()
        self._epoll.close()


class _Signals:
    """Signals as bytes on a socket, by way of Python's wake-up descriptor."""

    def __init__(self, call: Callable[[int], None], signals: Iterable[int]) -> None:
        self._call = call
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._old_fd = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._wanted = frozenset(signals)
        self._old = {number: signal.signal(number, _nothing) for number in sorted(self._wanted)}

    def fileno(self) -> int:
        return self._read.fileno()

    def ready(self, _events: int) -> None:
        for number in self._read.recv(64):
            if number in self._wanted:
                self._call(number)

    def close(self) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        self._read.close()
        self._write.close()


def _wanted_us(alarm: Alarm) -> int:
    return alarm.at_us


def _nothing(_number: int, _frame: object) -> None:
    """Does nothing; without a handler the signal would end the process before the loop reads it."""
