"""Output of `hop sim`: text, or one JSON object."""

import json
from collections.abc import Iterable

from hopring import compiled
from hopring.sim.campaign.bugs.planting import Bug
from hopring.sim.campaign.parallel import CampaignTotals, SeedReport
from hopring.sim.campaign.runner import WorldOutcome
from hopring.sim.campaign.shrink import Shrunk
from hopring.sim.campaign.story import schedule_lines, story


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bugs(known: Iterable[Bug], as_json: bool) -> str:
    """The list of bugs that can be planted."""
    if as_json:
        return json.dumps(
            {"bugs": [{"name": one.name, "breaks": one.breaks, "story": one.story} for one in known]}
        )
    rows = [(one.name, one.breaks, one.story) for one in known]
    names, rules = (max(len(row[at]) for row in rows) for at in (0, 1))
    return "\n".join(f"{name:{names}}  {breaks:{rules}}  {what}" for name, breaks, what in rows)


def campaign(
    tally: CampaignTotals, seeds: range, clients: bool, bug: Bug | None, seconds: float, as_json: bool
) -> str:
    """The result of many seeds."""
    if as_json:
        return json.dumps(_campaign_facts(tally, seeds, clients, bug, seconds))
    lines: list[str] = []
    for report in tally.failed:
        first = report.broken[0]
        lines += [f"seed {report.seed}  {first.property}", f"  {first.witness}"]
    if bug is not None:
        lines.append(_caught(tally, bug))
    lines.append(
        f"{count(tally.seeds, 'seed')}, {count(tally.violations, 'violation')}, {tally.events} events,"
        f" {tally.views} views, {seconds:.0f} s, {_code()}"
    )
    if tally.failed:
        planted = f" --bug {bug.name}" if bug else " --clients" if clients else ""
        lines.append(f"see it again: hop sim{planted} --seed {tally.failed[0].seed}")
    return "\n".join(lines)


def _code() -> str:
    return "compiled" if compiled.active() else "interpreted"


def _caught(tally: CampaignTotals, bug: Bug) -> str:
    if tally.failed:
        by = tally.failed[0].broken[0].property
        return f"{bug.name} was caught after {count(tally.seeds, 'seed')} by {by}"
    ran = f"its code ran {tally.planted_runs} times" if tally.planted_runs else "its code never ran"
    return f"{bug.name} was not caught; {ran}"


def _campaign_facts(
    tally: CampaignTotals, seeds: range, clients: bool, bug: Bug | None, seconds: float
) -> dict[str, object]:
    facts: dict[str, object] = {
        "seeds": tally.seeds,
        "start": seeds.start,
        "clients": clients,
        "violations": tally.violations,
        "failed_seeds": [one.seed for one in tally.failed],
        "failures": [_failure(one) for one in tally.failed],
        "events": tally.events,
        "views": tally.views,
        "seconds": round(seconds, 1),
        "compiled": compiled.active(),
    }
    if bug is not None:
        caught = tally.failed[0].broken[0].property if tally.failed else None
        facts |= {"bug": bug.name, "caught_by": caught, "planted_runs": tally.planted_runs}
    return facts


def _failure(one: SeedReport | WorldOutcome) -> dict[str, object]:
    broken = [{"property": verdict.property, "witness": verdict.witness} for verdict in one.broken]
    return {"seed": one.seed, "broken": broken}


def one_json(outcome: WorldOutcome, seconds: float, files: list[str]) -> str:
    """The result of one seed as JSON."""
    return json.dumps(_one_facts(outcome, seconds, files))


def _one_facts(outcome: WorldOutcome, seconds: float, files: list[str]) -> dict[str, object]:
    failed = bool(outcome.broken)
    return {
        "seeds": 1,
        "violations": len(outcome.broken),
        "failed_seeds": [outcome.seed] if failed else [],
        "failures": [_failure(outcome)] if failed else [],
        "events": outcome.events,
        "views": outcome.views,
        "seconds": round(seconds, 1),
        "compiled": compiled.active(),
        "trace": files,
    }


def not_shrunk(seed: int, seconds: float, as_json: bool) -> str:
    """The result for a seed that does not fail."""
    if as_json:
        facts = {"seeds": 1, "violations": 0, "failed_seeds": [], "events": 0, "seconds": round(seconds, 1)}
        return json.dumps(facts | {"compiled": compiled.active()})
    return f"seed {seed} does not fail"


def shrunk(small: Shrunk, seconds: float, files: list[str], as_json: bool) -> str:
    """The smallest failing world that was found."""
    world = small.world
    if as_json:
        facts = _one_facts(small.outcome, seconds, files)
        schedule = [[one.at_us, one.kind, list(one.what), one.number] for one in world.schedule]
        return json.dumps(facts | {"schedule": schedule, "load_per_second": world.load.per_second})
    return "\n".join(
        [
            *story(world, small.outcome),
            "",
            f"{count(len(world.schedule), 'fault')} of {small.faults_before} are needed"
            f" ({count(small.runs, 'run')}, {seconds:.0f} s, {_code()})",
            *schedule_lines(world.schedule),
        ]
    )
