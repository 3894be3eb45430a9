"""Reads the configuration file of Spread, spread.conf.

It lists segments, each with an address, a port and its daemons:

    Spread_Segment ADDRESS:PORT { NAME IP { D IP  C IP } ... }

The inner braces are optional and name interfaces: D for daemons, C for clients, neither for both. Everything
outside of segments sets options, which mean nothing here; each leaves a note. A segment becomes a site, named
by its place in the file. Where Spread broadcasts, our ring sends to each daemon singly, unless the segment has
a multicast address. Spread clients connect by TCP to the port of the segment, and find our daemons there too.
"""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, NamedTuple, NoReturn

from hopring.config.builder import ConfigBuilder, ConfigPlace
from hopring.config.error import ConfigError
from hopring.config.model import Config, Daemon, MulticastConfig

SPREAD_PORT_DEFAULT: Final = 4803
_TOKEN: Final = re.compile(r'"[^"\n]*"?|[{}=]|[^\s{}="]+')
_SEGMENT: Final = "spread_segment"
_ROLES: Final = ("C", "D")


class _Token(NamedTuple):
    text: str
    line: int


@dataclass(slots=True)
class _Segment:
    """A segment of the file."""

    line: int
    address: str
    port: int
    daemons: list[tuple[int, str, str]] = field(default_factory=list)  # Line, name, address.


def import_spread_conf(
    text: str, file: str = "spread.conf", cluster: str = "spread"
) -> tuple[Config, list[str]]:
    """The configuration, and notes about options that have no counterpart."""
    reader = _Reader(file, _tokens(text))
    segments = reader.read()
    builder = ConfigBuilder(file, cluster=cluster)
    if not segments:
        builder.refuse(
            ConfigPlace(""), "there is no Spread_Segment", "give a configuration of Spread (spread.conf)"
        )
    builder.check_name(ConfigPlace(""), cluster)
    width = len(str(len(segments)))
    for number, segment in enumerate(segments, start=1):
        reader.notes += _add_segment(builder, f"seg{number:0{width}}", segment)
    return builder.finish(), reader.notes


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(word, number)
        for number, line in enumerate(text.split("\n"), start=1)
        for word in _TOKEN.findall(line.partition("#")[0])
    ]


def _add_segment(builder: ConfigBuilder, name: str, segment: _Segment) -> list[str]:
    start = ConfigPlace(f"line {segment.line}", segment.line)
    is_multicast = ip_address(segment.address).is_multicast
    multicast = (
        MulticastConfig(builder.check_group(start, segment.address), segment.port) if is_multicast else None
    )
    builder.add_site(start, name, multicast)
    for line, daemon, address in segment.daemons:
        at = ConfigPlace(f"line {line}", line)
        place, port = builder.check_address(at, address), segment.port
        builder.add_daemon(at, name, Daemon(daemon, place, port, spread_port=port))
    notes = [f"line {segment.line}: segment {segment.address}:{segment.port} is site {name}"]
    if not is_multicast:
        notes.append(f"line {segment.line}: no multicast at {segment.address}; the ring sends to each daemon")
    return notes


@dataclass(slots=True)
class _Reader:
    """Parses the list of tokens."""

    file: str
    tokens: list[_Token]
    at: int = 0
    notes: list[str] = field(default_factory=list)

    def read(self) -> list[_Segment]:
        segments = []
        while self.at < len(self.tokens):
            token = self._next("")
            if token.text.lower() == _SEGMENT:
                segments.append(self._segment(token))
            else:
                self._skip_option(token)
        return segments

    def _segment(self, start: _Token) -> _Segment:
        where = self._next("an address after Spread_Segment")
        segment = _Segment(start.line, *self._endpoint(where))
        self._expect("{")
        while (token := self._next("a daemon or } to end the segment")).text != "}":
            self._check_word(token, "the name of a daemon")
            segment.daemons.append((token.line, token.text, self._address_of(token)))
        return segment

    def _endpoint(self, token: _Token) -> tuple[str, int]:
        address, _, port = token.text.partition(":")
        if not _is_ip(address):
            self._refuse(
                token, f"{token.text!r:.60} is not the address of a segment", "write it as 239.1.2.3:4803"
            )
        if not port:
            return address, SPREAD_PORT_DEFAULT
        if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65_535:
            self._refuse(token, f"{port!r:.60} is not a port", "choose 1 to 65535")
        return address, int(port)

    def _address_of(self, name: _Token) -> str:
        """The address for daemon traffic of the daemon whose name was just read."""
        main = self._next("").text if _is_ip(self._peek()) else None
        interfaces = self._interfaces() if self._peek() == "{" else []
        for_daemons = [address for role, address in interfaces if role != "C"]
        chosen = next(iter(for_daemons), main)
        if chosen is None:
            self._refuse(name, f"daemon {name.text:.60} has no IP address", "write its address after the name")
        if {main, *[address for _, address in interfaces]} - {chosen, None}:
            self.notes.append(f"line {name.line}: of the interfaces of {name.text} only {chosen} is used")
        return chosen

    def _interfaces(self) -> list[tuple[str, str]]:
        self._expect("{")
        found = []
        while (token := self._next("an interface or } to end the list")).text != "}":
            role = token.text.upper() if token.text.upper() in _ROLES else ""
            address = self._next("an address after the letter") if role else token
            if not _is_ip(address.text):
                self._refuse(
                    address, f"{address.text!r:.60} is not an interface", "write D, C or nothing, then an IP"
                )
            found.append((role, address.text))
        return found

    def _skip_option(self, name: _Token) -> None:
        self._check_word(name, "an option")
        line = name.line
        while self.at < len(self.tokens) and self.tokens[self.at].line == line:
            token = self._next("")
            if token.text == "{":
                while (token := self._next("} to end the list")).text != "}":
                    pass
            line = token.line
        self.notes.append(f"line {name.line}: {name.text} has no counterpart and is ignored")

    def _peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def _next(self, wanted: str) -> _Token:
        if self.at == len(self.tokens):
            last = self.tokens[-1] if self.tokens else _Token("", 1)
            self._refuse(last, "the file ends too early", f"add {wanted}")
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, text: str) -> None:
        token = self._next(text)
        if token.text != text:
            self._refuse(token, f"{token.text!r:.60} where {text} belongs", f"put {text} before it")

    def _check_word(self, token: _Token, wanted: str) -> None:
        if token.text[0] in '{}="':
            self._refuse(token, f"{token.text!r:.60} is not {wanted}", "check the braces before it")

    def _refuse(self, token: _Token, problem: str, remedy: str) -> NoReturn:
        raise ConfigError(self.file, f"line {token.line}", problem, remedy, token.line)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
