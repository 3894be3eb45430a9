"""Errors of work queues."""

from hopring.errors import HopError


class ClaimLost(HopError):
    """The claim has ended: its time was over, or the job was given back. Another worker may have the job."""

    def __init__(self, queue: str, job: int) -> None:
        text = "another worker may have it; give claims more time, or extend them while the work goes on"
        super().__init__(f"queue {queue}: the claim of job {job} has ended; {text}")
        self.queue = queue
        self.job = job


class QueueFull(HopError):
    """The queue has too many jobs, or too many bytes: nothing was put."""

    def __init__(self, queue: str, jobs: int, size_bytes: int) -> None:
        remedy = "start more workers, or discard dead letters"
        super().__init__(f"queue {queue}: full with {jobs} jobs of {size_bytes} bytes; {remedy}")
        self.queue = queue
        self.jobs = jobs
        self.size_bytes = size_bytes
