"""The reason of a view as fields of a log line or an event, with the names of daemons and sites."""

from collections.abc import Mapping

from hopring.ids import DaemonId
from hopring.reason import ViewReason, reason_names


def reason_facts(
    reason: ViewReason | None, names: Mapping[DaemonId, str], sites: Mapping[DaemonId, str]
) -> dict[str, object]:
    """Kind, witness, peer, link, and in seconds the silence and how long before the view it was noticed.

    The link is a pair of sites, or for a ring its site. Fields without a value are left out.
    """
    if reason is None:
        return {}
    facts = dict[str, object](kind=reason.kind)
    if not reason.loss:
        return facts
    named = dict(zip(("witness", "peer", "link"), reason_names(reason, _by(names), _by(sites)), strict=True))
    facts |= {key: value for key, value in named.items() if value}
    if reason.silence_us:
        facts["silence"] = round(reason.silence_us / 1e6, 3)
    facts["noticed"] = round(reason.noticed_us / 1e6, 3)
    return facts


def _by(names: Mapping[DaemonId, str]) -> dict[int, str]:
    return {int(one): name for one, name in names.items()}


def own_facts(
    reason: ViewReason | None, own: ViewReason | None, names: Mapping[DaemonId, str]
) -> dict[str, object]:
    """What a daemon itself had noticed, if the reason of the view is that of another: kind and peer."""
    if reason is None or own is None or not own.loss or reason.witness == own.witness:
        return {}
    facts = dict[str, object](own=own.kind)
    if own.peer is not None and DaemonId(own.peer) in names:
        facts["own_peer"] = names[DaemonId(own.peer)]
    return facts
