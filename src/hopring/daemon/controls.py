"""What the admin channel can do to a daemon and ask of it, by the names of the configuration."""

from collections.abc import Collection
from dataclasses import asdict
from difflib import get_close_matches

from hopring import __version__
from hopring.config import Config
from hopring.daemon.admin import Refusal
from hopring.daemon.clients import Clients
from hopring.daemon.member import Member
from hopring.daemon.shaper import CLEAR, Shape
from hopring.daemon.traffic import Traffic
from hopring.ids import Process
from hopring.session.queries import view_text


class MemberControls:
    """The levers of one member."""

    def __init__(self, config: Config, me: Process, member: Member, clients: Clients | None) -> None:
        self._names = [daemon.name for daemon in config.daemons]
        self._config = config
        self._me = me
        self._member = member
        self._clients = clients
        self._cut: list[str] = []
        self._shapes: dict[str, Shape] = {}

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        """Treats what goes to these daemons so."""
        for name in self._others(daemons):
            self._member.wires.shape(name, shape)
            self._shapes[name] = shape

    def cut(self, daemons: Collection[str]) -> None:
        """Cuts exactly these daemons off."""
        self._cut = self._others(daemons)
        self._member.wires.cut(self._cut)

    def _others(self, daemons: Collection[str]) -> list[str]:
        for name in daemons:
            if name == self._names[self._me.daemon]:
                raise Refusal(f"{name} is this daemon", "name others")
            if name not in self._names:
                close = get_close_matches(name, self._names, n=1)
                remedy = f"did you mean {close[0]}?" if close else f"choose of {', '.join(self._names[:20])}"
                raise Refusal(f"there is no daemon {name}", remedy)
        return sorted(set(daemons))

    def status(self) -> dict[str, object]:
        """View, members, what was done by hand, counters."""
        membership = self._member.membership
        view = membership.view
        status: dict[str, object] = {
            "version": __version__,
            "cluster": self._config.cluster,
            "daemon": self._names[self._me.daemon],
            "incarnation": f"{self._me.incarnation:016x}",
            "phase": membership.phase.name,
            "view": view_text(view.id),
            "members": [self._names[one.daemon] for one in view.members],
            "cut": self._cut,
            "shapes": {name: asdict(shape) for name, shape in self._shapes.items() if shape != CLEAR},
            "counters": self._counters(),
        }
        if self._clients is not None:
            groups = self._clients.desk.groups
            status["groups_state"] = groups.state.name
        return status

    def _counters(self) -> dict[str, object]:
        datagrams = self._member.wires.datagrams
        counters: dict[str, object] = {"unicast": _facts(datagrams.endpoint.traffic)}
        if datagrams.group is not None:
            counters["multicast"] = _facts(datagrams.group.traffic)
        dropped = datagrams.traffic.dropped + self._member.membership.drops
        counters["dropped"] = {str(reason): count for reason, count in sorted(dropped.items())}
        counters["lost_by_shape"] = datagrams.shaper.lost
        return counters


def _facts(traffic: Traffic) -> dict[str, object]:
    facts = asdict(traffic)
    for name in ("dropped", "unsent"):
        facts[name] = {str(reason): count for reason, count in sorted(facts[name].items())}
    return facts
