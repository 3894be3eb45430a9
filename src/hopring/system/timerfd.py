"""The kernel's timer descriptor, which Python offers by itself only from 3.13 on.

The time-out of `epoll.poll` is rounded up to whole milliseconds; a timer descriptor is exact.
"""

import ctypes
import os
from typing import Final

_CLOCK_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC

_libc: Final = ctypes.CDLL(None, use_errno=True)
_settime: Final = _libc.timerfd_settime
_settime.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


class _Spec(ctypes.Structure):
    """struct itimerspec: the interval, which stays 0, and the moment."""

    _fields_ = (
        ("interval_seconds", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


class TimerFd:
    """A descriptor that becomes readable at one moment of the monotonic clock.

    Register it edge-triggered: then it need not be read, because each expiry is a new edge.
    """

    def __init__(self) -> None:
        self._fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Spec()
        self._spec_at = ctypes.addressof(self._spec)

    def fileno(self) -> int:
        return self._fd

    def set(self, at_us: int) -> None:
        """Sets the time; a past one means now. Time 0 would switch the timer off, and is not allowed."""
        assert at_us > 0, "the monotonic clock is past 0"
        self._spec.seconds = at_us // 1_000_000
        self._spec.nanoseconds = at_us % 1_000_000 * 1_000
        if _settime(self._fd, _ABSOLUTE, self._spec_at, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        """Closes the descriptor of the timer."""
        os.close(self._fd)
