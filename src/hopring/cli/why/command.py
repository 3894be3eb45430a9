"""`hop why`: which link or daemon made a view break, told from both sides."""

import json
import re
import time
from pathlib import Path
from typing import Final

import click

from hopring.cli.daemon_session import NotGranted, Unreachable, json_option, timeout_option
from hopring.cli.monitor.admin_client import default_places
from hopring.cli.terminal import Failure, say, say_lines
from hopring.cli.why.diagnosis import Diagnosis
from hopring.cli.why.evidence import Evidence, ask_daemons, read_files
from hopring.cli.why.incidents import Incident
from hopring.cli.why.story import (
    Story,
    clocks_text,
    incident_of,
    incident_text,
    make_story,
    quiet_text,
    story_facts,
    stranger_text,
)

VIEWS_NAMED: Final = 8
_DURATION: Final = re.compile(r"(\d{1,7})([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

Chosen = list[tuple[Incident, Diagnosis]]


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is no duration; write 90s, 15m, 1h or 2d")
    return int(match[1]) * _UNITS[match[2]]


@click.command()
@click.argument("what", nargs=-1)
@click.option(
    "--since",
    "since_s",
    metavar="DURATION",
    callback=_duration,
    help="Only incidents of this last time, as 1h.",
)
@click.option("--all", "everything", is_flag=True, help="All incidents instead of the last one.")
@click.option(
    "--admin",
    "places",
    metavar="PATH",
    multiple=True,
    envvar="HOP_ADMIN",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="An admin socket of a daemon, or a directory of them (*.admin); may be repeated.  "
    "[default: /run/hopring and $XDG_RUNTIME_DIR/hopring]",
)
@timeout_option
@json_option
def why(
    what: tuple[str, ...],
    since_s: float | None,
    everything: bool,
    places: tuple[Path, ...],
    seconds: float,
    as_json: bool,
) -> None:
    """Tell why a view of daemons broke: since when, which link or daemon, who noticed first, what to do.

    It asks all daemons whose admin sockets are here for their events, and tells one story of all sides. WHAT
    may be a view, as 7.0, whose incident is told instead of the last one, and files to read instead of asking:
    logs of hopd, files of events, or state directories with these.
    """
    files = [Path(one) for one in what if _is_file(one)]
    views = [one for one in what if not _is_file(one)]
    if len(views) > 1:
        raise click.UsageError(f"one view at a time, not {' '.join(views)}; or there are no such files")
    evidence = read_files(files) if files else ask_daemons(list(places) or default_places(), seconds)
    for problem in evidence.problems:
        say(f"hop: {problem}", err=True)
    _check(evidence, files=bool(files))
    story = make_story(evidence)
    chosen = _choose(story, views, since_s, everything)
    if as_json:
        click.echo(json.dumps(story_facts(story, chosen)))
        return
    _tell(story, chosen, views, since_s)


def _is_file(text: str) -> bool:
    return "/" in text or Path(text).exists() or Path(text).suffix in (".log", ".events", ".json", ".jsonl")


def _check(evidence: Evidence, *, files: bool) -> None:
    """Ends the command if there is nothing to tell."""
    if any(evidence.histories.values()):
        return
    if files:
        raise Failure("no event of a daemon in these files; name logs of hopd, or its files *.events")
    if evidence.denied:
        raise NotGranted("no daemon lets us ask; call as the daemons' own user, or as root")
    raise Unreachable("no daemon answers; start hopd with an admin socket, or name logs or files of events")


def _choose(story: Story, views: list[str], since_s: float | None, everything: bool) -> Chosen:
    if views:
        try:
            found = incident_of(story, views[0])
        except ValueError:
            raise Failure(f"no daemon knows view {views[0]}; {_known_views(story)}") from None
        return [] if found is None else [found]
    from_s = 0.0 if since_s is None else time.time() - since_s
    recent = [one for one in story.incidents if one[0].last_s >= from_s or one[0].healed is None]
    return recent if everything or since_s is not None else recent[-1:]


def _known_views(story: Story) -> str:
    ids = list(dict.fromkeys([view.id for view in story.views]))
    return f"the last that are known: {', '.join(ids[-VIEWS_NAMED:])}" if ids else "none is known"


def _tell(story: Story, chosen: Chosen, views: list[str], since_s: float | None) -> None:
    texts = [incident_text(*one) for one in chosen]
    texts += [] if views else [stranger_text(one) for one in story.strangers]
    if not texts and views:
        texts = [f"view {views[0]} followed no loss: daemons started, or met"]
    elif not texts:
        since = "" if since_s is None else f" in the last {since_s:g} s"
        texts = [quiet_text(story, since)]
    if clocks := clocks_text(story):
        texts.append(clocks)
    say_lines("\n\n".join(texts))
