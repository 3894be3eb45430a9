"""A process without a free descriptor, for the duration of a block."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    """Lowers the limit to the lowest free number: it limits numbers, and some below the highest may be free."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
