"""`hop pipeline serve`: a Spark Connect server that stays, so that small runs do not wait for Java."""

import time
from typing import Final

import click

from hopring.cli.terminal import Failure, say
from hopring.errors import HopError

LOOK_SECONDS: Final = 0.5


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=15_002,
    show_default=True,
    help="Port of loopback to listen on.",
)
@click.option("--master", metavar="URL", help="A cluster, as spark://HOST:7077. Default: this machine.")
def serve(port: int, master: str | None) -> None:
    """Run a Spark Connect server until interrupted (Ctrl-C).

    Runs with `--remote` and its URL do not start Java, and find its code compiled. The server listens on
    loopback. All users of this machine can run programs as you through it, unless
    SPARK_CONNECT_AUTHENTICATE_TOKEN is set for it and for its clients.
    """
    from hopring.spark.serving import ConnectServer  # noqa: PLC0415  Help should not wait for it.

    say("hop: starting Spark ...", err=True)
    try:
        with ConnectServer(port, master) as server:
            say(server.url)
            say(f"hop: try `hop pipeline run --remote {server.url} --spool DIR --out OUT`", err=True)
            say(f"hop: or `export SPARK_REMOTE={server.url}`; Ctrl-C ends the server", err=True)
            try:
                while True:
                    server.must_run()
                    time.sleep(LOOK_SECONDS)
            except KeyboardInterrupt:
                say("hop: ending the server", err=True)
    except HopError as error:
        raise Failure(str(error)) from None
