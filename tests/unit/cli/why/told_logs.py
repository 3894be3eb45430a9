"""Logs of daemons as text, by seconds of one day, for stories that a test tells."""

from datetime import UTC, datetime, timedelta

DAY = datetime(2026, 3, 2, 6, 17, tzinfo=UTC)


class ToldLog:
    """The log of one daemon, whose clock may be ahead."""

    def __init__(self, daemon: str, site: str = "", ahead_s: float = 0.0) -> None:
        self.daemon = daemon
        self._ahead_s = ahead_s
        self.lines: list[str] = []
        if site:
            self.say(0.0, f"start version=0.1.0 cluster=lab site={site}")

    def say(self, at_s: float, words: str) -> None:
        """A line at this second of the story."""
        moment = DAY + timedelta(seconds=at_s + self._ahead_s)
        when = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.lines.append(f"{when} {self.daemon} {words}")

    def view(self, at_s: float, number: str, members: str, more: str = "") -> None:
        """A view of these members."""
        size = members.count(",") + 1
        self.say(at_s, f"view id={number}.00000000000000aa size={size} members={members} {more}".rstrip())

    @property
    def text(self) -> bytes:
        """The whole log."""
        return "\n".join([*self.lines, ""]).encode()


def split(ahead_s: float = 0.0) -> list[ToldLog]:
    """Two sites of two daemons lose each other at 60 s and meet at 100 s; the clocks of us are ahead."""
    logs = [
        ToldLog("eu1", "eu"),
        ToldLog("eu2", "eu"),
        ToldLog("us1", "us", ahead_s),
        ToldLog("us2", "us", ahead_s),
    ]
    for number, log in enumerate(logs):
        log.view(10.0 + number / 100, "2.0", "eu1,eu2,us1,us2", "cause=start kind=start")
    facts = "silence=1.2 noticed=0.1"
    eu = f"witness=eu1 peer=us1 link=eu-us {facts}"
    us = f"witness=us1 peer=eu1 link=eu-us {facts}"
    gone = "gone=us1,us2 cause=silent kind=link"
    logs[0].view(61.3, "3.0", "eu1,eu2", f"{gone} {eu}")
    logs[1].view(61.31, "3.0", "eu1,eu2", f"{gone} {eu} own=lost own_peer=eu1")
    gone = "gone=eu1,eu2 cause=silent kind=link"
    logs[2].view(61.5, "3.2", "us1,us2", f"{gone} {us}")
    logs[3].view(61.51, "3.2", "us1,us2", f"{gone} {us} own=lost own_peer=us1")
    for number, log in enumerate(logs):
        came = "us1,us2" if number < 2 else "eu1,eu2"
        log.view(100.0 + number / 100, "4.0", "eu1,eu2,us1,us2", f"came={came} cause=merge kind=merge")
    return logs
