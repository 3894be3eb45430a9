"""One world, run and judged, whatever the code does."""

from pathlib import Path
from traceback import extract_tb

from hopring.check.verdict import broken
from hopring.sim.campaign.draw import World, draw_world
from hopring.sim.campaign.motion import BUDGET, CONVERGENCE, NO_CRASH, SELF_SENDING, Outcome, Run
from hopring.sim.campaign.motion_clients import ClientRun
from hopring.sim.engine import BudgetSpent

__all__ = ["BUDGET", "CONVERGENCE", "NO_CRASH", "SELF_SENDING", "Outcome", "Run", "run_seed", "run_world"]


def run_seed(seed: int, clients: bool = False) -> Outcome:
    """The world of a seed, from start to verdict."""
    return run_world(draw_world(seed, clients))


def run_world(world: World, link_counters_us: int = 0) -> Outcome:
    """A world, from start to verdict; with a period, its history has the links' counters too."""
    run = (Run if world.clients is None else ClientRun)(world, link_counters_us)
    try:
        run.live()
        return run.judge()
    except BudgetSpent as spent:
        return run.cut_short(broken(BUDGET, str(spent)))
    except Exception as error:  # Whatever the code raises is a finding: that is what a campaign is for.
        return run.cut_short(broken(NO_CRASH, _last_line(error)))


def _last_line(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, " if frames else ""
    return f"{where}{type(error).__name__}: {error}"
