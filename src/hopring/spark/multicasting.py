"""Publishing to a live group, once: a batch goes through a daemon, and is done when all of it is delivered.

No pyspark here. After a crash Spark makes its last batch again, under the same number. It is sent again as it
was (outbox.py), and receivers drop what they have had (client/once.py), whatever is under way.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hopring import sync
from hopring.client.errors import BatchInDoubt, MessageTooLarge, SessionClosed
from hopring.spark.errors import SparkError
from hopring.spark.outbox import keep, longest_bytes, rows
from hopring.spark.staging import Staged
from hopring.spark.write_options import WriteOptions
from hopring.spool.encode import Mark

STILL_SECONDS_MAX: Final = 60.0
"""So long nothing may move, for instance because the daemons have no view."""

_AGAIN: Final = "start the query again: what is delivered is not delivered twice"


def multicast(options: WriteOptions, directory: Path | None, staged: Sequence[Staged], mark: Mark) -> None:
    """Sends what was staged; returns when all of it is delivered. Without a directory nothing is kept."""
    full = [one for one in staged if one.rows]
    if not full:
        return
    with sync.connect(options.daemons, membership=False, reconnect=False) as session:
        # Before it is kept: what is kept is sent for good, and a query that was mended makes another batch.
        longest = max(map(longest_bytes, full))
        if longest > session.message_bytes_max:
            raise _too_large(MessageTooLarge(longest, session.message_bytes_max))
        _send(session, options, full if directory is None else [keep(directory, mark, full)], mark)


def _send(session: sync.Session, options: WriteOptions, batch: Sequence[Staged], mark: Mark) -> None:
    try:
        session.multicast_batch(
            options.group,
            (row for one in batch for row in rows(one)),
            app=mark.app,
            batch=mark.batch,
            service=options.service,
            timeout_seconds=STILL_SECONDS_MAX,
        )
    except BatchInDoubt as error:
        what = f"batch {mark.batch} of {mark.app!r} to {options.group}"
        raise SparkError(f"{what}: {error.reason}", _AGAIN) from error
    except SessionClosed as error:
        raise SparkError(f"daemon {session.daemon}: {error.reason}", _AGAIN) from error
    except MessageTooLarge as error:  # Of a batch that was kept for a daemon with another limit.
        raise _too_large(error) from error


def _too_large(error: MessageTooLarge) -> SparkError:
    problem = f"a payload of {error.size_bytes} bytes, and the daemon takes {error.limit_bytes} at most"
    return SparkError(problem, "split them, or leave them out: .where('octet_length(payload) <= ...')")
