"""What an audit found, in words for people and as JSON for programs."""

import json
from typing import TYPE_CHECKING

from hopring.check.evs_c.words import EVS_C

if TYPE_CHECKING:
    from hopring.spark.audit.judge import Report


def as_text(report: "Report") -> str:
    """The broken properties with their witnesses, and a last line with the sum."""
    lines = []
    for finding in report.findings:
        run = f"{finding.run}: " if finding.run else ""
        more = f" ({finding.violations} violations)" if finding.violations > 1 else ""
        lines.append(f"{run}broken: {finding.property}{more}\n    {finding.witness}")
    many = "one history" if len(report.runs) == 1 else f"{len(report.runs)} histories"
    if report.holds:
        lines.append(f"{many}: {_all_of(report)} hold")
    else:
        verdicts = sum(len(names) for names in report.judged.values())
        lines.append(f"{many}: {len(report.findings)} of {verdicts} verdicts are broken")
    return "\n".join(lines)


def _all_of(report: "Report") -> str:
    """How many properties were judged at most, as in `all 22 properties of daemons and 25 of clients`."""
    of_clients = [sum(name.startswith(EVS_C) for name in names) for names in report.judged.values()]
    clients = max(of_clients)
    daemons = max(len(names) - own for names, own in zip(report.judged.values(), of_clients, strict=True))
    if not clients:
        return f"all {daemons} properties"
    return (
        f"all {daemons} properties of daemons and {clients} of clients"
        if daemons
        else f"all {clients} properties of clients"
    )


def as_json_text(report: "Report") -> str:
    """One object."""
    return json.dumps(
        {
            "holds": report.holds,
            "runs": list(report.runs),
            "broken": [
                {
                    "run": finding.run,
                    "property": finding.property,
                    "violations": finding.violations,
                    "witness": finding.witness,
                }
                for finding in report.findings
            ],
            "judged": {run: list(names) for run, names in report.judged.items()},
        }
    )
