"""Digests of the simulator's histories, to show that a change of the code changed no behaviour.

    python -m tests.house.histories --seeds 400 --record before.json
    python -m tests.house.histories --seeds 400 --compare before.json

Runs each seed without and with clients and hashes every event of its history. The digest covers values only,
not the names of classes and fields, so it stays the same when those are renamed. HOPRING_PURE=1 runs the
sources, HOPRING_PURE=0 the compiled modules; both give the same digests.
"""

import argparse
import json
import re
import sys
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

from hopring import compiled
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WorldKind

NAMES = re.compile(r"[A-Za-z_][\w.]*(?=[(=])|(?<=<)[\w.]+(?=: )")
"""Names of classes and fields in the representation of an event, and those of members of enumerations."""


def digest_of(seed: int, clients: bool) -> str:
    """A hash over the values of all events of a seed's history."""
    outcome = run_seed(seed, WorldKind(clients))
    total = sha256()
    for event in outcome.history:
        total.update(NAMES.sub("", repr(event)).encode())
    return f"{total.hexdigest()[:24]} {outcome.events} {len(outcome.broken)}"


def _digests_of(seed: int) -> tuple[str, tuple[str, str]]:
    return str(seed), (digest_of(seed, False), digest_of(seed, True))


def main() -> None:
    """Records digests, or compares with recorded ones and exits with 1 where one differs."""
    parser = argparse.ArgumentParser("tests.house.histories", description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    known = json.loads(options.compare.read_text()) if options.compare else {}
    found, different = {}, []
    with get_context("fork").Pool(options.jobs) as pool:
        for seed, digests in pool.imap(_digests_of, range(1, options.seeds + 1)):
            found[seed] = digests
            if known and tuple(known[seed]) != digests:
                different.append(seed)
                print(f"seed {seed}: {digests}, recorded {known[seed]}", file=sys.stderr, flush=True)
    if options.record:
        options.record.write_text(json.dumps(found, indent=0))
    build = "compiled" if compiled.active() else "interpreted"
    print(f"{len(found)} seeds without and with clients, {build}: {len(different)} differ")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
