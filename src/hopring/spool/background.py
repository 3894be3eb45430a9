"""A sync in the background: its writer goes on meanwhile, so that disk and processor work at once."""

from concurrent.futures import Future, ThreadPoolExecutor

from hopring.spool.disk import Disk


class BackgroundSync:
    """One sync at a time, in a thread of its own that is there once it is needed."""

    def __init__(self, disk: Disk) -> None:
        """Nothing is under way."""
        self._disk = disk
        self._thread: ThreadPoolExecutor | None = None
        self._job: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether one is under way, or has ended and nobody has asked."""
        return self._job is not None

    def start(self, file: int) -> None:
        """Begins one; what is written to the file from now on may be in it or not."""
        assert not self.busy, "one at a time"
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool-sync")
        self._job = self._thread.submit(self._disk.sync, file)

    def has_ended(self, *, wait: bool) -> bool:
        """Whether one has ended since it was started, which is told once; OSError if it failed."""
        if self._job is None or not (wait or self._job.done()):
            return False
        job, self._job = self._job, None
        job.result()
        return True

    def close(self) -> None:
        """Waits for what is under way; its result is not asked for any more."""
        self._job = None
        if self._thread is not None:
            self._thread.shutdown()
