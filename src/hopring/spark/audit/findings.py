"""The result of an audit: broken properties with their witnesses, as text for people and JSON for programs."""

import json
from collections.abc import Mapping

import msgspec

from hopring.check.properties.property import EVS_C


class AuditFinding(msgspec.Struct, frozen=True):
    """One property that is broken in one history."""

    run: str
    property: str
    violations: int
    witness: str


class AuditReport(msgspec.Struct, frozen=True):
    """The findings of an audit, and what was judged."""

    runs: tuple[str, ...]
    findings: tuple[AuditFinding, ...]  # By run, and in it the nearest to the cause first.
    judged: Mapping[str, tuple[str, ...]]  # By run: the properties.

    @property
    def holds(self) -> bool:
        """Whether no property is broken."""
        return not self.findings

    def broken(self, run: str = "") -> set[str]:
        """The properties that are broken in one history."""
        return {finding.property for finding in self.findings if finding.run == run}


def merged(daemons: AuditReport, clients: AuditReport) -> AuditReport:
    """Both in one; of a history, what its daemons broke comes first, being nearer to the cause."""
    runs = tuple(sorted({*daemons.runs, *clients.runs}))
    judged = {run: (*daemons.judged.get(run, ()), *clients.judged.get(run, ())) for run in runs}
    findings = sorted((*daemons.findings, *clients.findings), key=lambda finding: finding.run)
    return AuditReport(runs, tuple(findings), judged)


def as_text(report: AuditReport) -> str:
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


def _all_of(report: AuditReport) -> str:
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


def as_json_text(report: AuditReport) -> str:
    """One JSON object with verdict, runs, findings and what was judged."""
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
