"""`kubectl vc connect`, `disconnect` and `exec`: the verbs that enter a virtual cluster.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from enum import StrEnum
from typing import Annotated

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, create_verb_group, with_connection_flags
from kubectl_vc.commandline.declarations import Argument, Option
from kubectl_vc.output.cli_errors import UsageError

app = create_verb_group("Enter a virtual cluster.")


class ForwardMode(StrEnum):
    """Use of a forwarder by `connect`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


ForwardFlag = Annotated[
    ForwardMode,
    Option(
        "--forward",
        help="Forward a port through the super cluster. auto: only without a route to the endpoint",
    ),
]
LocalPortFlag = Annotated[
    int,
    Option(
        "--local-port",
        metavar="PORT",
        min=0,
        max=65535,
        show_default=False,
        help="Port of 127.0.0.1 for the forwarder (default: any free port)",
    ),
]
CommandArgument = Annotated[
    list[str] | None,
    Argument(metavar="-- COMMAND", after_dashes=True, help="Command to run, after two hyphens"),
]
OptionalConnectionArgument = Annotated[
    str,
    Argument(
        metavar="[NAME]",
        show_default=False,
        help="Name of the VirtualCluster (default: the one of the current context)",
    ),
]


@app.command()
@with_connection_flags
async def connect(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    command: CommandArgument = None,
    forward: ForwardFlag = ForwardMode.AUTO,
    local_port: LocalPortFlag = 0,
) -> None:
    """Connect the current shell to a virtual cluster, or run one command in it.

    Adds a context to the kubeconfig and switches to it. `kubectl vc disconnect` returns to the
    previous context. Without a route to the tenant's API server, a forwarder stays in the
    background until then.

    With a COMMAND, only that command gets the context, and its exit code is the one of this
    command.

    Examples:

      kubectl vc connect web

      kubectl vc connect web -- kubectl get namespaces
    """
    from kubectl_vc.connect import verb

    options = verb.ConnectOptions(
        forward=forward.value, local_port=local_port, command=tuple(command or ())
    )
    await verb.run_connect(access, create_terminal(), name=name, options=options)


@app.command()
@with_connection_flags
async def disconnect(*, access: ConfigFlags, name: OptionalConnectionArgument = "") -> None:
    """Return from a virtual cluster to the previous context.

    Removes the context that `kubectl vc connect` added, and ends its forwarder.

    Examples:

      kubectl vc disconnect
    """
    from kubectl_vc.connect import verb

    await verb.run_disconnect(access, create_terminal(), name=name)


@app.command("exec")
@with_connection_flags
async def execute(
    *, access: ConfigFlags, name: flags.NameArgument, command: CommandArgument = None
) -> None:
    """Run a command in the context of a virtual cluster.

    The command gets a kubeconfig of its own. The exit code is the one of the command. There is no
    forwarder: without a route to the tenant's API server, use `kubectl vc connect NAME -- COMMAND`.

    Examples:

      kubectl vc exec web -- kubectl get namespaces
    """
    if not command:
        raise UsageError("COMMAND is missing. Add it after two hyphens.")
    from kubectl_vc.connect import verb

    options = verb.ConnectOptions(forward=ForwardMode.NEVER.value, command=tuple(command))
    await verb.run_connect(access, create_terminal(), name=name, options=options)
