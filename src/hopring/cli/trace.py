"""`hop trace`: pictures of a recorded trace."""

from io import BytesIO
from pathlib import Path
from typing import Final

import click

from hopring.check.picture import PictureError, PictureOptions, draw
from hopring.check.picture.page import WIDTH_PX_MIN
from hopring.check.trace import Event
from hopring.check.trace_files import TraceError, read_json_lines, read_parquet
from hopring.cli.terminal import Failure
from hopring.config.units import DURATION

_PARQUET: Final = b"PAR1"
_TRACES: Final = "a file of `hopd --trace` or `hop sim --trace`"
"""The first bytes of a Parquet file."""


def _moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """A time such as 200ms, in microseconds."""
    if value is None:
        return None
    try:
        return DURATION.read(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}; write one as {DURATION.example}") from None


@click.group()
def trace() -> None:
    """Look at a recorded trace.

    Traces are written by `hopd --trace` and `hop sim --trace`.
    """


@trace.command("draw")
@click.argument(
    "files", metavar="TRACE...", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path)
)
@click.option("--group", metavar="G", help="The sessions of this group instead of the daemons.")
@click.option(
    "--from", "from_us", metavar="TIME", callback=_moment, help="From this time after the first event."
)
@click.option("--to", "to_us", metavar="TIME", callback=_moment, help="Up to this time after the first event.")
@click.option("--title", default="", help="Title above the picture.")
@click.option(
    "--width", type=click.IntRange(WIDTH_PX_MIN, 20_000), default=960, show_default=True, help="In pixels."
)
@click.option(
    "--arrows",
    type=click.IntRange(1),
    default=600,
    show_default=True,
    help="Limit of arrows; above it only some messages are drawn, and the picture says how many are not.",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), default="-", help="Default: stdout."
)
def draw_(
    files: tuple[Path, ...],
    group: str | None,
    from_us: int | None,
    to_us: int | None,
    title: str,
    width: int,
    arrows: int,
    output: str,
) -> None:
    """Draw a trace as an SVG picture.

    Lanes are daemons, or with --group the sessions of that group; time goes from left to right; a colour
    is a view. The files of several daemons make one picture. JSON lines and Parquet can be read.
    """
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise click.UsageError("--to has to be later than --from")
    history = [event for file in files for event in _read(file)]
    try:
        picture = draw(history, PictureOptions(group, from_us, to_us, title, width, arrows))
    except PictureError as error:
        raise Failure(f"{_names(files)}: {error}") from None
    _write(picture, output)


def _write(picture: str, output: str) -> None:
    if output == "-":
        click.echo(picture, nl=False)
        return
    try:
        Path(output).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise Failure(
            f"{output}: cannot be written ({error.strerror or error}); choose another file for -o"
        ) from None


def _read(file: Path) -> list[Event]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Failure(f"{file}: cannot be read ({error.strerror or error}); check the path") from None
    if not content:
        raise Failure(f"{file}: the trace is empty; give {_TRACES}")
    parquet = content.startswith(_PARQUET)
    try:
        return read_parquet(BytesIO(content)) if parquet else read_json_lines(BytesIO(content))
    except (TraceError, ValueError, OSError) as error:
        raise Failure(f"{file}: not a trace that can be read: {error}; give {_TRACES}") from None


def _names(files: tuple[Path, ...]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
