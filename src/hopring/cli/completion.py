"""`hop completion`, and the names that a shell offers: groups, daemons, sites and spools.

Completion has to be quick and quiet: a daemon is asked with a short timeout, and without an answer no names are
offered.
"""

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from hopring.printable import printable

ASK_SECONDS: Final = 0.5
SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_HOP_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def completion(context: click.Context, shell: str | None) -> None:
    """Print the completion script of a shell.

    It completes commands, options and names in bash, zsh and fish.

    Without SHELL, the shell in $SHELL is used. Names of groups come from the daemon at --at or $HOP_URL, names
    of daemons from the admin sockets.

    \b
    bash    echo 'eval "$(hop completion bash)"' >> ~/.bashrc
    zsh     echo 'eval "$(hop completion zsh)"' >> ~/.zshrc
    fish    hop completion fish > ~/.config/fish/completions/hop.fish

    Then open a new shell.
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        problem = f"$SHELL names {name}, which is not supported" if name else "$SHELL is not set"
        raise click.UsageError(f"{problem}; name one of {', '.join(SHELLS)}")
    click.echo(kind(context.find_root().command, {}, "hop", _VARIABLE).source())


def group_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Groups with members, as the daemon lists them."""
    from hopring.cli.daemon_session import query_session  # noqa: PLC0415  Only when names are wanted.
    from hopring.client.arguments import URL_DEFAULT  # noqa: PLC0415

    url = context.params.get("url") or os.environ.get("HOP_URL") or URL_DEFAULT
    try:
        with query_session(url, None, ASK_SECONDS) as session:
            names = [one.name for one in session.groups(timeout_seconds=ASK_SECONDS)]
    except (click.ClickException, OSError, ValueError):
        return []
    return _beginning(names, incomplete)


def spool_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Groups that have a spool in the directory."""
    from hopring.errors import HopError  # noqa: PLC0415
    from hopring.spool.files import bases, spools  # noqa: PLC0415
    from hopring.spool.reading import read_head  # noqa: PLC0415

    root = context.params.get("root") or os.environ.get("HOP_SPOOL")
    try:
        found = list(spools(Path(root))) if root else []
        names = [read_head(directory, bases(directory)[-1]).group for directory in found]
    except (HopError, OSError):
        return []
    return _beginning(names, incomplete)


def daemon_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Daemons that answer on their admin sockets."""
    return _beginning([name for names in _sites(context).values() for name in names], incomplete)


def side_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Sites and daemons known to the daemons that answer."""
    sites = _sites(context)
    return _beginning([*sites, *[name for names in sites.values() for name in names]], incomplete)


def site_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Sites of the configuration file on the command line."""
    from hopring.config import ConfigError, load_config  # noqa: PLC0415

    # An option that has no value yet ends the parsing, before arguments are given their names.
    file = context.params.get("file") or next(iter(context.args), "")
    try:
        return _beginning([site.name for site in load_config(file).sites], incomplete)
    except ConfigError:
        return []


def _sites(context: click.Context) -> dict[str, list[str]]:
    from hopring.cli.monitor.admin_client import AdminClient, default_places  # noqa: PLC0415

    places = context.parent.params.get("places") if context.parent is not None else None
    try:
        return AdminClient(list(places or default_places()), ASK_SECONDS).look().sites
    except click.ClickException:
        return {}


def _beginning(names: list[str], incomplete: str) -> list[str]:
    # A name with control characters would be obeyed by the terminal, or be taken for two.
    return sorted([name for name in names if name.startswith(incomplete) and printable(name) == name])
