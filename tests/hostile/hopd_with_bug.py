"""A hopd for tests of hostile input: with a planted bug, or with few descriptors, as the environment says.

It is called as hopd is. If the planted code ran, the file that the environment names says so at the end.
"""

import os
import resource
from pathlib import Path
from typing import Final

from tests.hostile.bugs import BUGS

from hopring.daemon.hopd import main
from hopring.sim.campaign.bugs.planting import plant

BUG_VARIABLE: Final = "HOSTILE_BUG"
RUNS_VARIABLE: Final = "HOSTILE_RUNS"
DESCRIPTORS_VARIABLE: Final = "HOSTILE_DESCRIPTORS"


def run_with_bug() -> None:
    """Runs a daemon until its end."""
    descriptors = os.environ.get(DESCRIPTORS_VARIABLE)
    if descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(descriptors), int(descriptors)))
    with plant(BUGS.get(os.environ.get(BUG_VARIABLE, ""))) as planted:
        try:
            main()
        finally:
            if planted.runs:
                Path(os.environ[RUNS_VARIABLE]).write_text(str(planted.runs))


if __name__ == "__main__":
    run_with_bug()
