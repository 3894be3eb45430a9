"""What an audit found, in words for people and as JSON for programs."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hopring.spark.audit.judge import Report


def as_text(report: "Report") -> str:
    """The broken properties with their witnesses, and a last line with the sum."""
    lines = []
    for finding in report.findings:
        run = f"{finding.run}: " if finding.run else ""
        more = f" ({finding.violations} violations)" if finding.violations > 1 else ""
        lines.append(f"{run}broken: {finding.property}{more}\n    {finding.witness}")
    judged = max((len(names) for names in report.judged.values()), default=0)
    many = "one history" if len(report.runs) == 1 else f"{len(report.runs)} histories"
    if report.holds:
        lines.append(f"{many}: all {judged} properties hold")
    else:
        lines.append(f"{many}: {len(report.findings)} of {judged * len(report.runs)} verdicts are broken")
    return "\n".join(lines)


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
