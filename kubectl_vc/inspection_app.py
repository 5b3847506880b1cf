"""`kubectl vc list`, `get`, `describe`, `events` and `logs`: the verbs that only read.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from enum import StrEnum
from typing import Annotated

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, create_verb_group, with_connection_flags
from kubectl_vc.commandline.declarations import Option
from kubectl_vc.output import durations
from kubectl_vc.output.cli_errors import UsageError
from kubectl_vc.output.object_formats import DEFAULT_FORMAT, ObjectFormat, parse_object_format

app = create_verb_group("Show virtual clusters.")


class LogComponent(StrEnum):
    """Component with logs about one tenant."""

    ETCD = "etcd"
    APISERVER = "apiserver"
    CONTROLLER_MANAGER = "controller-manager"
    DNS = "dns"
    METRICS_SERVER = "metrics-server"
    SYNCER = "syncer"


ComponentFlag = Annotated[LogComponent, Option("--component", help="Component to read")]
FollowFlag = Annotated[bool, Option("--follow", "-f", help="Print new lines as they come")]
PreviousFlag = Annotated[
    bool, Option("--previous", "-p", help="Read the previous instance of the container")
]
TailFlag = Annotated[
    int,
    Option("--tail", metavar="LINES", min=-1, help="Lines from the end of each log. -1: all lines"),
]


def parse_since(text: str) -> str:
    """Return a duration that is longer than 0 as kubectl reads it. Raises ValueError."""
    seconds = durations.parse_duration(text)
    if seconds < 1:
        raise ValueError("must be 1 s or longer")
    return f"{seconds:.0f}s"


SinceFlag = Annotated[
    str,
    Option(
        "--since",
        metavar="TIME",
        parser=parse_since,
        help="Only lines newer than this time, such as 10m (default: all lines)",
    ),
]
EventWatchFlag = Annotated[
    bool, Option("--watch", "-w", help="After the present Events, print new ones as they come")
]
WatchFlag = Annotated[
    bool, Option("--watch", "-w", help="After the present objects, print each change")
]
SelectorFlag = Annotated[
    str,
    Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Only objects with these labels, such as team=a,stage!=test",
    ),
]
ObjectOutputFlag = Annotated[
    ObjectFormat,
    Option(
        "--output",
        "-o",
        metavar="FORMAT",
        parser=parse_object_format,
        show_default=False,
        help="Output format: wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=SPEC,"
        " go-template=TEMPLATE, or one of the three as -file=PATH (default: a table)",
    ),
]


@app.command("list")
@with_connection_flags
async def list_all(
    *,
    access: ConfigFlags,
    everywhere: flags.AllNamespaces = False,
    selector: SelectorFlag = "",
    output: ObjectOutputFlag = DEFAULT_FORMAT,
    watch: WatchFlag = False,
) -> None:
    """List virtual clusters.

    Examples:

      kubectl vc list -A -o wide

      kubectl vc list -l team=a -o custom-columns=NAME:.metadata.name,VERSION:.status.version
    """
    from kubectl_vc.verbs import listing

    options = listing.ListOptions(
        everywhere=everywhere, selector=selector, output=output, watch=watch
    )
    await listing.run_list(access, create_terminal(), options)


@app.command()
@with_connection_flags
async def get(
    *,
    access: ConfigFlags,
    name: flags.NameArgument = "",
    everywhere: flags.AllNamespaces = False,
    selector: SelectorFlag = "",
    output: ObjectOutputFlag = DEFAULT_FORMAT,
    watch: WatchFlag = False,
) -> None:
    """Show virtual clusters, or one in detail.

    With NAME, also show its conditions, and its namespaces, pods and nodes in the super cluster.

    Examples:

      kubectl vc get web -o jsonpath={.status.endpoint}

      kubectl vc get web -w
    """
    if name and everywhere:
        raise UsageError("NAME and -A cannot be used together. Use -n NAMESPACE instead of -A.")
    if name and selector:
        raise UsageError("NAME and -l cannot be used together. Leave one of the two out.")
    from kubectl_vc.verbs import get as verb
    from kubectl_vc.verbs import listing

    if name and not watch and not output.template:
        await verb.run_get(access, create_terminal(), name=name, form=output.form)
    else:
        options = listing.ListOptions(
            name=name, everywhere=everywhere, selector=selector, output=output, watch=watch
        )
        await listing.run_list(access, create_terminal(), options)


@app.command()
@with_connection_flags
async def describe(*, access: ConfigFlags, name: flags.NameArgument) -> None:
    """Show details of a virtual cluster and its control plane.

    Prints fields, conditions, pods of the control plane, certificates, a restore or rollout in
    progress, and Events.

    Examples:

      kubectl vc describe web
    """
    from kubectl_vc.inspection import describe as verb

    await verb.run_describe(access, create_terminal(), name=name)


@app.command()
@with_connection_flags
async def events(
    *, access: ConfigFlags, name: flags.NameArgument, watch: EventWatchFlag = False
) -> None:
    """List Events about a virtual cluster and of its root namespace.

    Examples:

      kubectl vc events web -w
    """
    from kubectl_vc.inspection import events as verb

    await verb.run_events(access, create_terminal(), name=name, watch=watch)


@app.command()
@with_connection_flags
async def logs(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    component: ComponentFlag = LogComponent.APISERVER,
    follow: FollowFlag = False,
    tail: TailFlag = -1,
    since: SinceFlag = "",
    previous: PreviousFlag = False,
    manager_namespace: flags.ManagerNamespaceFlag = flags.MANAGER_NAMESPACE,
) -> None:
    """Print the logs of a virtual cluster's control plane.

    kubectl reads the logs, with your rights in the root namespace. The component syncer prints only
    the lines that name this virtual cluster, and needs rights in the namespace of the components.

    Examples:

      kubectl vc logs web --component etcd --tail 20

      kubectl vc logs web --component syncer -f --since 10m
    """
    from kubectl_vc.inspection import logs as verb

    options = verb.LogOptions(
        component=component.value,
        follow=follow,
        previous=previous,
        tail=tail,
        since=since,
        manager_namespace=manager_namespace,
    )
    await verb.run_logs(access, create_terminal(), name=name, options=options)
