"""One process of a peer's client: `python -m bench.peers.role PEER PORT JOB`."""

import gc
import sys

import msgspec

from bench.peers.all import PEERS
from hopring.cli.bench.job import Job


def main() -> None:
    """Does the job."""
    name, port, text = sys.argv[1:]
    job = msgspec.json.decode(text, type=Job)
    gc.freeze()
    getattr(PEERS[name](int(port)), job.role)(job)


if __name__ == "__main__":
    main()
