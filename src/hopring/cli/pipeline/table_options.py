"""Options of `hop pipeline run` about its tables, alerts and counters."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hopring.cli.daemon_session import checked_url, identity, identity_options
from hopring.client.arguments import URL_DEFAULT

if TYPE_CHECKING:
    from hopring.spark.pipeline.store import PipelineOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_WISHES: Final = "hopring.pipeline.tables"


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta.setdefault(_WISHES, {})[parameter.name] = value


def _url(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    _keep(context, parameter, checked_url(context, parameter, value))


def table_options(command: Command) -> Command:
    """Adds the options; `with_tables` applies them."""
    for option in reversed(
        (
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


def with_tables(options: "PipelineOptions") -> "PipelineOptions":
    """The options of a run with those of the tables added."""
    import msgspec  # noqa: PLC0415  Only where the command runs.

    from hopring.spark.pipeline.alerts import AlertTarget  # noqa: PLC0415  Help should not wait for it.

    given = _given()
    target = None
    if given.get("alert"):
        credentials = {name: value for name, value in identity().items() if value}
        target = AlertTarget(given["alert"], given["at"], credentials)
    return msgspec.structs.replace(
        options,
        alert=target,
        metrics=given.get("metrics"),
    )


def _given() -> dict[str, Any]:
    found: dict[str, Any] = click.get_current_context().meta.get(_WISHES, {})
    return found
