"""Access of clients: who they are, and the checks of their requests against the grants.

Verification of signatures and tokens, and random numbers, are the driver's: an `Authenticator` is handed in.

Invariants  a request without its right changes nothing, and nothing of it is delivered, not even here; a nonce
            is signed for once.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from hopring.config.access import ANONYMOUS
from hopring.groups.events import Send
from hopring.groups.interface import GroupsInterface
from hopring.groups.names import served_by
from hopring.ids import NEVER
from hopring.session.grants import REPLAYED, ClientRights, GrantsTable
from hopring.session.options import BLOCK_RIGHT, NOT_ALLOWED, NOT_AUTHENTICATED, PRIORITY_RIGHT, Slow
from hopring.session.protocol import (
    AuthRequest,
    ChallengeReply,
    DeniedNotice,
    HelloRequest,
    JoinRequest,
    NoAnswer,
    ProofRequest,
    QueryRequest,
    RefusedReply,
)
from hopring.session.session import ConnectedSession
from hopring.wire.bundle import decode_bundle, pick

NAMES_SHOWN: Final = 256
_MICROSECONDS: Final = 1_000_000


class Authenticator(Protocol):
    """Verifies the credentials of clients, by the users of the configuration."""

    def challenge(self) -> ChallengeReply:
        """A fresh nonce, with the names of this cluster and daemon."""

    def key_of(self, user: str) -> bytes | None:
        """The public key of a user; None if there is no such user."""

    def verify_proof(self, user: str, nonce: bytes, binding: bytes, signature: bytes) -> bool:
        """Whether the user's key signed this nonce."""

    def verify_token(self, token: str) -> tuple[str, int] | None:
        """The subject of a valid token and its time left in microseconds; None if it is not accepted."""


class ClientAccess:
    """The access of all clients of one daemon."""

    def __init__(self, groups: GroupsInterface) -> None:
        self.grants: GrantsTable | None = None
        """None: there are no grants, and only the options of the daemon limit what clients may do."""
        self.authenticator: Authenticator | None = None
        self.revoked: frozenset[bytes] = frozenset()
        """Digests of certificates that are not accepted any more."""
        self.refusals: Counter[str] = Counter()
        """How often requests were refused, by kind."""
        self._groups = groups
        self._debts: dict[str, tuple[float, int]] = {}  # Bytes above the rate, and when that was, by identity.

    def rights(self, session: ConnectedSession) -> ClientRights | None:
        """The rights of a session; None if there are no grants."""
        return None if self.grants is None else self.grants.rights(session.identity)

    # The handshake.

    def begin(
        self, session: ConnectedSession, request: AuthRequest, now_us: int
    ) -> ChallengeReply | RefusedReply | None:
        """Answers AUTH: with a challenge for a key; None accepts a token."""
        authenticator = self.authenticator
        if authenticator is None:
            remedy = "list users in [[users]] of the daemon's configuration, or connect without credentials"
            return RefusedReply("hello", request.user, NOT_AUTHENTICATED, remedy)
        if request.method == "key":
            challenge = authenticator.challenge()
            session.user, session.nonce = request.user, challenge.nonce
            return challenge
        verified = authenticator.verify_token(request.token)
        if verified is None:
            remedy = "get a new token of an issuer that [[users]] lists, for this cluster as its audience"
            return RefusedReply("hello", "token", NOT_AUTHENTICATED, remedy)
        session.identity, session.authenticated, session.expires_at_us = verified[0], True, now_us + verified[1]
        return None

    def prove(self, session: ConnectedSession, request: ProofRequest) -> RefusedReply | None:
        """Checks the signature of a challenge, whose nonce is void from now on."""
        user, nonce, session.nonce = session.user, session.nonce, b""
        authenticator = self.authenticator
        if authenticator is None or not authenticator.verify_proof(
            user, nonce, session.binding, request.signature
        ):
            # The same for an unknown user and for a wrong key.
            remedy = "check user and key, and that [[users]] of the daemon's configuration has its public half"
            return RefusedReply("hello", user, NOT_AUTHENTICATED, remedy)
        session.identity, session.authenticated, session.key = user, True, authenticator.key_of(user)
        session.expires_at_us = NEVER
        return None

    def lost(self, session: ConnectedSession) -> str:
        """The reason for which a session may not go on under the present users and grants; empty if it may."""
        if session.certificate in self.revoked:
            return f"the certificate of {session.identity} was revoked"
        key = None if self.authenticator is None else self.authenticator.key_of(session.identity)
        if session.key is not None and session.key != key:
            return f"the key of {session.identity} is not accepted any more"
        if self.grants is not None and not self.grants.may_use_name(session.identity, session.name):
            return f"{session.identity} may not use the name {session.name} any more"
        return ""

    def refuse_hello(
        self, session: ConnectedSession, hello: HelloRequest, others: Collection[ConnectedSession]
    ) -> RefusedReply | None:
        """The refusal of a session, by the certificate that it has shown or by the grants."""
        who = session.identity
        if session.certificate in self.revoked:
            remedy = "its certificate was revoked: ask the operator of the daemon for another one"
            return RefusedReply("hello", who, NOT_ALLOWED, remedy)
        rights = self.rights(session)
        if rights is None or self.grants is None:
            return None
        if not rights.known:
            remedy = f'add [grants."{who}"] to the daemon\'s configuration'
            if who == ANONYMOUS:
                remedy = "connect with user= and key=, with token=, or by the Unix socket"
            return RefusedReply("hello", who, NOT_ALLOWED, remedy)
        if not self.grants.may_use_name(who, hello.name):
            remedy = f"connect with a name that {who} may use, or add it to names in [grants]"
            return RefusedReply("hello", hello.name, NOT_ALLOWED, remedy)
        if session.dialect.native and hello.slow not in rights.slow:
            remedy = f"choose another policy, or add {hello.slow} to slow in [grants] for {who}"
            return RefusedReply("hello", f"slow={hello.slow}", NOT_ALLOWED, remedy)
        if session.dialect.native and hello.priority and not rights.priority:
            remedy = f"connect without priority=True, or set priority = true in [grants] for {who}"
            return RefusedReply("hello", PRIORITY_RIGHT, NOT_ALLOWED, remedy)
        if rights.sessions_max is not None:
            count = sum([one.known and one.identity == who for one in others])
            if count >= rights.sessions_max:
                remedy = f"end a session, or raise sessions_max in [grants] for {who}"
                return RefusedReply("hello", f"session {count + 1} of {who}", NOT_ALLOWED, remedy)
        return None

    def may_block(self, session: ConnectedSession, allow: tuple[str, ...]) -> bool:
        """Whether a session may choose the policy that lets senders wait."""
        rights = self.rights(session)
        return BLOCK_RIGHT in allow if rights is None else Slow.BLOCK.value in rights.slow

    def may_have_priority(self, session: ConnectedSession, allow: tuple[str, ...]) -> bool:
        """Whether a session may precede others."""
        rights = self.rights(session)
        return PRIORITY_RIGHT in allow if rights is None else rights.priority

    # Requests.

    def refuse_join(
        self, session: ConnectedSession, request: JoinRequest, sessions: Mapping[int, ConnectedSession]
    ) -> RefusedReply | None:
        """The refusal of a join by the grants."""
        rights = self.rights(session)
        if rights is None:
            return None
        group, who = request.group[:NAMES_SHOWN], session.identity
        if not rights.may_join(request.group):
            served = served_by(request.group)
            key = "join" if served is None or request.group.endswith(REPLAYED) else "serve"
            return RefusedReply("join", group, NOT_ALLOWED, f"add the group to {key} in [grants] for {who}")
        if rights.groups_max is not None:
            own = [one.number for one in sessions.values() if one.known and one.identity == who]
            if sum([len(self._groups.groups_wanted(number)) for number in own]) >= rights.groups_max:
                remedy = f"leave some groups, or raise groups_max in [grants] for {who}"
                return RefusedReply("join", group, NOT_ALLOWED, remedy)
        return None

    def refuse_query(self, session: ConnectedSession, request: QueryRequest) -> NoAnswer | None:
        """The refusal of a query about a group that the session may not see, whether it exists or not."""
        rights = self.rights(session)
        if rights is None or request.what not in ("members", "locks") or rights.may_see(request.name):
            return None
        return NoAnswer(NOT_ALLOWED, f"add the group to see in [grants] for {session.identity}")

    def filter_send(self, session: ConnectedSession, send: Send) -> tuple[Send | None, DeniedNotice | None]:
        """The part of a bundle that may be sent, and the refusal of the rest."""
        rights = self.rights(session)
        if rights is None:
            return send, None
        key, who = send.key, session.identity
        if key.mark is not None and not rights.may_use_app(key.mark.app):
            remedy = f"add the application to apps in [grants] for {who}"
            return None, DeniedNotice(key.mark.app, NOT_ALLOWED, remedy, _tickets(send, None))
        forbidden = [group for group in key.groups if not rights.may_send(group)]
        if not forbidden:
            return send, None
        remedy = f"add the group to send in [grants] for {who}"
        if not key.mixed or len(forbidden) == len(key.groups):
            return None, DeniedNotice(forbidden[0], NOT_ALLOWED, remedy, _tickets(send, None))
        bundle = decode_bundle(send.bundle)
        bad = {at for at, group in enumerate(key.groups) if group in forbidden}
        kept = [at for at in range(len(bundle)) if bundle.group_indexes[at] not in bad]
        rest = pick(bundle, kept)
        denied = DeniedNotice(forbidden[0], NOT_ALLOWED, remedy, _tickets(send, bad))
        return Send(send.session, decode_bundle(rest).key, rest, send.deadline_us), denied

    # Rates.

    def sent(self, session: ConnectedSession, size_bytes: int, now_us: int) -> None:
        """Counts bytes of an identity that has a rate."""
        rights = self.rights(session)
        if rights is not None and rights.rate_bytes_per_second is not None:
            debt = self.debt_bytes(session, now_us)
            self._debts[session.identity] = (debt + size_bytes, now_us)

    def debt_bytes(self, session: ConnectedSession, now_us: int) -> int:
        """The bytes of a session's identity above its rate; its clients get no credit for as many."""
        debt = self._debts.get(session.identity)
        if debt is None:
            return 0
        rights = self.rights(session)
        rate = None if rights is None else rights.rate_bytes_per_second
        left = 0.0 if rate is None else debt[0] - rate * (now_us - debt[1]) / _MICROSECONDS
        if left <= 0:
            del self._debts[session.identity]
            return 0
        self._debts[session.identity] = (left, now_us)
        return int(left)

    @property
    def in_debt(self) -> bool:
        """Whether credit waits for the rate of an identity."""
        return bool(self._debts)


def _tickets(send: Send, groups: set[int] | None) -> tuple[int, ...]:
    """The tickets of a bundle's messages, of all or of those to some groups of a mixed one."""
    bundle = decode_bundle(send.bundle)
    hints = bundle.hints.tolist()
    return tuple(
        [
            hint
            for at, hint in enumerate(hints)
            if hint and (groups is None or bundle.group_indexes[at] in groups)
        ]
    )
