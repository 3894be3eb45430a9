"""The command `hop`: a table of commands, each imported when it is called.

Commands of packages above this one are named by their path only, so the imports of this package point
downwards.
"""

import errno
import signal
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NoReturn

import click

from hopring import __version__
from hopring.cli.terminal import BadConfiguration, Exit, Failure, say
from hopring.config.error import ConfigError
from hopring.credentials.files import ChangeRefused, CredentialError

COMMANDS: Final = {
    "config": "hopring.cli.config:config",
    "routes": "hopring.cli.queries:routes",
    "pub": "hopring.cli.pubsub:pub",
    "sub": "hopring.cli.pubsub:sub",
    "request": "hopring.cli.requests:request",
    "reply": "hopring.cli.requests:reply",
    "lock": "hopring.cli.lock:lock",
    "locks": "hopring.cli.queries:locks",
    "groups": "hopring.cli.queries:groups",
    "members": "hopring.cli.queries:members",
    "view": "hopring.cli.queries:view",
    "rmp": "hopring.cli.peers.command:rmp",
    "keys": "hopring.cli.keys:keys",
    "monitor": "hopring.cli.monitor.command:monitor",
    "why": "hopring.cli.why.command:why",
    "doctor": "hopring.cli.doctor:doctor",
    "shell": "hopring.cli.shell:shell",
    "up": "hopring.cli.up:up",
    "wide": "hopring.cli.wide.command:wide",
    "bench": "hopring.bench.command:bench",
    "demo": "hopring.demo.command:demo",
    "sim": "hopring.cli.sim:sim",
    "trace": "hopring.cli.trace:trace",
    "spool": "hopring.cli.spool:spool",
    "pipeline": "hopring.cli.pipeline.command:pipeline",
    "completion": "hopring.cli.completion:completion",
}


class LazyCommands(click.Group):
    """Imports a command when it is called, and maps exceptions to exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the help text."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command on the command line; for an unknown one the error suggests a similar name."""
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5)
            remedy = f"did you mean {near[0]}?" if near else "`hop --help` lists the commands"
            ctx.fail(f"No such command {args[0]!r}; {remedy}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Runs a command and maps its exceptions to exit codes."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise BadConfiguration(str(error)) from None
        except ChangeRefused as error:
            raise Failure(str(error)) from None
        except CredentialError as error:
            raise BadConfiguration(str(error)) from None
        except OSError as error:
            # A closed pipe is no failure; click ends quietly then.
            if error.errno == errno.EPIPE:
                raise
            place = error.filename or "the output"
            remedy = "check the path, its permissions and the space on its disk"
            raise Failure(f"{place}: {error.strerror or error}; {remedy}") from None
        except KeyboardInterrupt:
            say("hop: interrupted", err=True)
            ctx.exit(Exit.INTERRUPTED)


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 1 failed or refused, 2 wrong command line, 3 no daemon reached, 4 not in time, "
    "5 not primary, 6 not permitted, 7 wrong configuration, 130 interrupted.",
)
@click.version_option(__version__, prog_name="hop")
def cli() -> None:
    """Wide-area group communication: clients, daemons, simulator, spools.

    Results are on stdout, everything else on stderr.
    """


def main() -> None:
    """Entry point of the script `hop`."""
    signal.signal(signal.SIGTERM, _leave)
    for stream in (sys.stdout, sys.stderr):
        # A terminal without these characters shows question marks instead.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    cli(prog_name="hop")


def _leave(number: int, _frame: object) -> NoReturn:
    """Raises SystemExit on SIGTERM, so that context managers end what the command started."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
