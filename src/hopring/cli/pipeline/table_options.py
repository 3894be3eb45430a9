"""Options of `hop pipeline run` about its tables, alerts and counters."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hopring.cli.daemon_session import checked_url, identity, identity_options
from hopring.cli.spool import amount
from hopring.client.arguments import URL_DEFAULT
from hopring.config.units import Quantity

if TYPE_CHECKING:
    from hopring.spark.pipeline.store import PipelineOptions

Command = TypeVar("Command", bound=Callable[..., Any])

AGE: Final = Quantity(
    name="time",
    kept_in="microseconds",
    example="7d",
    units={
        "s": Fraction(10**6),
        "min": Fraction(60 * 10**6),
        "h": Fraction(3_600 * 10**6),
        "d": Fraction(86_400 * 10**6),
    },
    written=("d", "h", "min", "s"),
)
_WISHES: Final = "hopring.pipeline.tables"


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta.setdefault(_WISHES, {})[parameter.name] = value


def _age(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    _keep(context, parameter, amount(AGE)(context, parameter, value))


def _url(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    _keep(context, parameter, checked_url(context, parameter, value))


def table_options(command: Command) -> Command:
    """Adds the options; `with_tables` applies them."""
    for option in reversed(
        (
            click.option(
                "--retain",
                metavar="TIME",
                expose_value=False,
                callback=_age,
                help="With --stream: remove records of bronze that are older, as 7d or 12h.",
            ),
            click.option(
                "--format",
                "form",
                metavar="NAME",
                default="parquet",
                show_default=True,
                expose_value=False,
                callback=_keep,
                help="Format of the tables: parquet, orc, or with --catalog any that the session knows.",
            ),
            click.option(
                "--catalog",
                metavar="NAME[.PREFIX]",
                expose_value=False,
                callback=_keep,
                help="Register the tables in this catalog of Spark, in schemas bronze, silver and gold.",
            ),
            click.option(
                "--alert",
                metavar="GROUP",
                expose_value=False,
                callback=_keep,
                help="Send each new violation and unexplained gap to this group, once.",
            ),
            click.option(
                "--at",
                metavar="URL",
                envvar="HOP_URL",
                show_envvar=True,
                default=URL_DEFAULT,
                show_default=True,
                expose_value=False,
                callback=_url,
                help="With --alert: the daemon.",
            ),
            identity_options,
            click.option(
                "--metrics",
                metavar="[ADDRESS:]PORT",
                expose_value=False,
                callback=_keep,
                help="Serve counters for Prometheus there while it runs; at its end they are in metrics.prom.",
            ),
        )
    ):
        command = option(command)
    return command


def check_tables(*, stream: bool, out: str) -> None:
    """Raises UsageError if the options do not go together."""
    from hopring.spark.pipeline.files import is_elsewhere  # noqa: PLC0415  Help should not wait for it.

    given = _given()
    if stream and is_elsewhere(out):
        raise click.UsageError("--stream keeps its tables in a local directory: give one for --out")
    if given.get("retain") is not None and not stream:
        raise click.UsageError("--retain goes with --stream: other runs make the tables anew")
    if stream and given.get("form") != "parquet":
        raise click.UsageError("--stream keeps its tables as Parquet: leave --format out")


def with_tables(options: "PipelineOptions") -> "PipelineOptions":
    """The options of a run with those of the tables added."""
    import msgspec  # noqa: PLC0415  Only where the command runs.

    from hopring.spark.pipeline.alerts import AlertTarget  # noqa: PLC0415  Help should not wait for it.
    from hopring.spark.pipeline.upkeep import UpkeepLimits  # noqa: PLC0415

    given = _given()
    retain_us = given.get("retain")
    target = None
    if given.get("alert"):
        credentials = {name: value for name, value in identity().items() if value}
        target = AlertTarget(given["alert"], given["at"], credentials)
    return msgspec.structs.replace(
        options,
        upkeep=UpkeepLimits(retain_seconds=None if retain_us is None else retain_us / 1e6),
        alert=target,
        metrics=given.get("metrics"),
        form=given["form"],
        catalog=given.get("catalog"),
    )


def _given() -> dict[str, Any]:
    found: dict[str, Any] = click.get_current_context().meta.get(_WISHES, {})
    return found
