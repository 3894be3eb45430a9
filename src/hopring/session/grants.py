"""Grants: the rights of clients by their identities, as the configuration gives them.

All entries whose pattern matches an identity count together; what one of them denies stays denied. A limit is
taken from the most specific entry that has it. A session's name belongs to the most specific pattern of names
that matches it, over all entries: with `names = ["*"]` in one entry and `["pricer"]` in another, only
identities of the second may be called `pricer`.
"""

from typing import Final

from hopring.config.access import ANONYMOUS, SLOW_DEFAULT, GrantConfig
from hopring.groups.names import served_by, synchronous_of

REPLAYED: Final = "?spool?servers"
"""Behind the name of a group: the spoolers that answer requests for its past (spool/pages.py)."""

KEPT_MAX: Final = 4096
"""Answers that are kept: of identities, and for each identity of groups."""


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern, in which `*` stands for any characters, is this text; linear in its length."""
    first, *middle = pattern.split("*")
    if not middle:
        return pattern == text
    last = middle.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def specificity(pattern: str) -> tuple[bool, int]:
    """Orders patterns: one without `*` is above all others, then the one with more characters."""
    return "*" not in pattern, len(pattern.replace("*", ""))


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return any(matches(pattern, text) for pattern in patterns)


class ClientRights:
    """The rights of one identity."""

    def __init__(self, identity: str, grants: tuple[GrantConfig, ...]) -> None:
        """`grants` are the entries that match the identity."""
        self.identity = identity
        self.grants = grants
        self._send: dict[str, bool] = {}
        specific = sorted(grants, key=lambda one: specificity(one.identity), reverse=True)
        self.sessions_max = next((one.sessions_max for one in specific if one.sessions_max is not None), None)
        self.groups_max = next((one.groups_max for one in specific if one.groups_max is not None), None)
        rates = [one.rate_bytes_per_second for one in specific if one.rate_bytes_per_second is not None]
        self.rate_bytes_per_second = rates[0] if rates else None
        self.priority = any(one.priority is True for one in grants) and not any(
            one.priority is False for one in grants
        )
        given = {policy for one in grants for policy in one.slow} or set(SLOW_DEFAULT)
        self.slow = frozenset(given - {policy for one in grants for policy in one.deny_slow})

    @property
    def known(self) -> bool:
        """Whether there is an entry for this identity at all."""
        return bool(self.grants)

    def may_join(self, group: str) -> bool:
        """Whether it may be a member of a group; of one of servers, by the right to serve."""
        served = served_by(group)
        if served is not None and not group.endswith(REPLAYED):
            return self.may_serve(served)
        group = synchronous_of(group) or group
        allowed = any(_any(one.join, group) for one in self.grants)
        return allowed and not any(_any(one.deny_join, group) for one in self.grants)

    def may_serve(self, group: str) -> bool:
        """Whether it may answer requests to a group."""
        allowed = any(_any(one.serve, group) for one in self.grants)
        return allowed and not any(_any(one.deny_serve, group) for one in self.grants)

    def may_lock(self, group: str) -> bool:
        """Whether it may have locks of a group; that of a handler, by the right to serve."""
        served = served_by(group)
        if served is not None:
            return self.may_serve(served)
        allowed = any(_any(one.lock, group) for one in self.grants)
        return allowed and not any(_any(one.deny_lock, group) for one in self.grants)

    def may_send(self, group: str) -> bool:
        """Whether it may send to a group, which may be a private one; asked for each bundle, and so kept."""
        known = self._send.get(group)
        if known is None:
            if len(self._send) >= KEPT_MAX:
                self._send.clear()
            known = self._send[group] = self._may_send(group)
        return known

    def _may_send(self, group: str) -> bool:
        if group.endswith(REPLAYED):  # Who may join a group may ask for its past, and nobody else.
            return self.may_join(group.removesuffix(REPLAYED))
        synchronous = synchronous_of(group)
        if synchronous is not None:  # Its members agree there to the end of a view.
            return self.may_join(synchronous)
        group = served_by(group) or group  # Requests to a group are messages to it.
        allowed = any(_any(one.send, group) for one in self.grants)
        return allowed and not any(_any(one.deny_send, group) for one in self.grants)

    def may_see(self, group: str) -> bool:
        """Whether listings show it a group; members see their group anyway, so the right to join is enough."""
        if any(_any(one.deny_see, group) for one in self.grants):
            return False
        asked = served_by(group) is not None and self.may_send(group)  # Receipts of requests name the servers.
        return asked or any(_any(one.see, group) for one in self.grants) or self.may_join(group)

    def may_use_app(self, app: str) -> bool:
        """Whether it may send batches of an application."""
        allowed = any(_any(one.apps, app) for one in self.grants)
        return allowed and not any(_any(one.deny_apps, app) for one in self.grants)

    def name_specificity(self, name: str) -> tuple[bool, int] | None:
        """How specific its best pattern for a session's name is; None if it may not have that name."""
        if any(_any(one.deny_names, name) for one in self.grants):
            return None
        found = [specificity(pattern) for one in self.grants for pattern in one.names if matches(pattern, name)]
        return max(found, default=None)


class GrantsTable:
    """The grants of one daemon."""

    def __init__(self, grants: tuple[GrantConfig, ...]) -> None:
        self._grants = grants
        self._rights: dict[str, ClientRights] = {}

    def rights(self, identity: str) -> ClientRights:
        """The rights of an identity; without a matching entry it has none."""
        known = self._rights.get(identity)
        if known is None:
            if len(self._rights) >= KEPT_MAX:
                self._rights.clear()
            known = self._rights[identity] = ClientRights(identity, self._entries(identity))
        return known

    def may_use_name(self, identity: str, name: str) -> bool:
        """Whether a session of this identity may have this name."""
        own = self.rights(identity).name_specificity(name)
        if own is None:
            return False
        patterns = [pattern for one in self._grants for pattern in one.names]
        return own >= max([specificity(pattern) for pattern in patterns if matches(pattern, name)])

    def _entries(self, identity: str) -> tuple[GrantConfig, ...]:
        if identity == ANONYMOUS:
            return tuple([one for one in self._grants if one.identity == ANONYMOUS])
        return tuple([one for one in self._grants if matches(one.identity, identity)])
