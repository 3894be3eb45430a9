"""One direction between two hosts: rate, queue, loss, duplication, delay and reordering of datagrams.

A datagram first has to fit (MTU), then waits its turn on a line of a given rate behind a bounded queue, and
is then lost, doubled or delayed by chance. A datagram that is lost by chance has still used the line.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

from hopring.sim.engine import generator

IP_UDP_BYTES: Final = 28
"""The IPv4 and UDP headers of a datagram; rate, queue and MTU count them."""

_SECOND_US: Final = 1_000_000


class LossReason(StrEnum):
    """Why a datagram did not arrive."""

    CHANCE = "chance"
    CUT = "cut"
    MTU = "mtu"
    QUEUE = "queue"
    TARGETED = "targeted"
    HOST_DOWN = "host_down"
    NO_RECEIVER = "no_receiver"
    RECEIVE_BUFFER = "receive_buffer"


@dataclass(frozen=True, slots=True)
class Quality:
    """Delay, faults and limits of a path; 0 switches a fault or a limit off."""

    delay_us: int = 0
    jitter_us: int = 0  # Up to this much more, evenly spread; it reorders, as it does in real networks.
    loss: float = 0.0
    duplicate: float = 0.0
    duplicate_delay_us: int = 0  # The copy comes up to this much later still, evenly spread.
    reorder: float = 0.0
    reorder_delay_us: int = 10_000  # How much later a reordered datagram comes.
    rate_bytes_per_second: int = 0
    queue_bytes: int = 0  # Waiting and in transmission; beyond it the newest is dropped. 0 has no bound.
    mtu_bytes: int = 0

    def __post_init__(self) -> None:
        for probability in (self.loss, self.duplicate, self.reorder):
            assert 0.0 <= probability <= 1.0, "a probability lies between 0 and 1"


@dataclass(slots=True)
class PathCounters:
    """Counters of one path. Once nothing is in flight, sent + doubled = delivered + all losses."""

    sent: int = 0
    sent_bytes: int = 0
    doubled: int = 0
    delivered: int = 0
    delivered_bytes: int = 0
    lost: Counter[LossReason] = field(default_factory=Counter)


class Path:
    """The state of one direction: its line, its random generators, its counters."""

    __slots__ = ("_busy_until", "_delay", "_duplicate", "_loss", "_quality", "_reorder", "counters", "name")

    def __init__(self, name: str, quality: Quality, seed: int) -> None:
        self.name = name
        self.counters = PathCounters()
        self._quality = quality
        # In units of 1/rate microseconds, in which one byte takes exactly a million: no rounding adds up.
        self._busy_until = 0
        self._loss = self._generator(seed, "loss")
        self._delay = self._generator(seed, "delay")
        self._duplicate = self._generator(seed, "duplicate")
        self._reorder = self._generator(seed, "reorder")

    def _generator(self, seed: int, purpose: str) -> Random:
        return generator(seed, f"path {self.name} {purpose}")

    @property
    def quality(self) -> Quality:
        """The present quality of the path."""
        return self._quality

    @quality.setter
    def quality(self, quality: Quality) -> None:
        """Changes the path for later datagrams; those that wait on the line keep their waiting time."""
        before, after = self._quality.rate_bytes_per_second, quality.rate_bytes_per_second
        if before != after:
            self._busy_until = -(-self._busy_until // before) * after if before else 0
        self._quality = quality

    def backlog_bytes(self, now_us: int) -> int:
        """Bytes that wait or are in transmission, with IP and UDP headers; a byte begun counts."""
        rate = self._quality.rate_bytes_per_second
        return max(0, -((now_us * rate - self._busy_until) // _SECOND_US))

    def carry(self, datagram_bytes: int, now_us: int) -> list[int] | LossReason:
        """The moments at which copies arrive, or the reason why none does."""
        quality = self._quality
        size = datagram_bytes + IP_UDP_BYTES
        if quality.mtu_bytes and size > quality.mtu_bytes:
            return LossReason.MTU
        left_us = now_us
        if quality.rate_bytes_per_second:
            backlog = self.backlog_bytes(now_us)
            # An idle line takes any datagram, however small its queue.
            if quality.queue_bytes and backlog and backlog + size > quality.queue_bytes:
                return LossReason.QUEUE
            left_us = self._occupy_line(size, now_us)
        if quality.loss and self._loss.random() < quality.loss:
            return LossReason.CHANCE
        arrivals = [left_us + self._delay_us()]
        if quality.duplicate and self._duplicate.random() < quality.duplicate:
            later_us = (
                int(self._duplicate.random() * quality.duplicate_delay_us) if quality.duplicate_delay_us else 0
            )
            arrivals.append(left_us + self._delay_us() + later_us)
        return arrivals

    def _occupy_line(self, size: int, now_us: int) -> int:
        """Queues the datagram on the line; returns the time at which its last byte has left."""
        rate = self._quality.rate_bytes_per_second
        self._busy_until = max(self._busy_until, now_us * rate) + size * _SECOND_US
        return -(-self._busy_until // rate)

    def _delay_us(self) -> int:
        quality = self._quality
        delay_us = quality.delay_us
        if quality.jitter_us:
            delay_us += int(self._delay.random() * (quality.jitter_us + 1))
        if quality.reorder and self._reorder.random() < quality.reorder:
            delay_us += quality.reorder_delay_us
        return delay_us
