"""`kubectl vc logs NAME`: logs of a tenant's control plane, or the syncer's lines about it.

Owns the selection of pods. kubectl reads the logs. Hazard: the syncer serves all tenants, so only
lines that name this tenant's root namespace may be printed.
"""

import re
import subprocess
from dataclasses import dataclass

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.client.kubectl_process import build_command
from kubectl_vc.output.cli_errors import NotFoundError
from kubectl_vc.output.terminal import Terminal
from tenancy import specs, wellknown
from tenancy.resources import PODS

SYNCER = "syncer"
SYNCER_SELECTOR = "app.kubernetes.io/name=vc-syncer"
_LABEL_VALUES = {"dns": "coredns"}
"""Label values of components whose pods are not named after them."""
_MAX_PODS = 20
"""Most pods that kubectl follows at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The flags of `logs`."""

    component: str
    follow: bool
    previous: bool
    tail: int
    """Lines from the end. -1: all."""
    since: str
    """Duration as kubectl reads it. Empty: no limit."""
    manager_namespace: str


async def run_logs(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: LogOptions
) -> None:
    """Print the logs of one component. Raises SystemExit with the exit code of kubectl."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        root = specs.parse_virtual_cluster(body).tenant.root
        is_syncer = options.component == SYNCER
        namespace = options.manager_namespace if is_syncer else root
        selector = build_selector(options.component)
        found = await connection.super_client.list(
            PODS, namespace=namespace, label_selector=selector, metadata_only=True
        )
        if not found.get("items"):
            check = "doctor" if is_syncer else f"get {name} -n {body['metadata']['namespace']}"
            raise NotFoundError(
                f"there is no pod of {options.component} in the namespace {namespace}. Check it"
                f" with `kubectl vc {check}`."
            )
        command = build_command(access, connection.context)
    words = [*command, "--namespace", namespace, *build_words(selector, options)]
    if is_syncer:
        code = _print_matching(words, terminal, root)
    else:
        code = subprocess.run(words, check=False).returncode  # noqa: ASYNC221 - nothing else runs
    if code:
        raise SystemExit(code if code > 0 else 128 - code)


def build_selector(component: str) -> str:
    """Return the labels of the pods of a component. Pure."""
    if component == SYNCER:
        return SYNCER_SELECTOR
    return f"{wellknown.COMPONENT}={_LABEL_VALUES.get(component, component)}"


def build_words(selector: str, options: LogOptions) -> list[str]:
    """Return the words of kubectl after its connection flags. Pure."""
    words = ["logs", f"--selector={selector}", f"--max-log-requests={_MAX_PODS}"]
    words.append(f"--tail={options.tail}")
    if options.component != SYNCER:
        words.append("--prefix")
    if options.since:
        words.append(f"--since={options.since}")
    words += [
        flag
        for flag, is_set in (("--follow", options.follow), ("--previous", options.previous))
        if is_set
    ]
    return words


def is_about(line: str, root: str) -> bool:
    """Return whether a line of the syncer names a root namespace, or a namespace of its tenant."""
    return re.search(rf"(?<![a-z0-9-]){re.escape(root)}(?![a-z0-9])", line) is not None


def _print_matching(words: list[str], terminal: Terminal, root: str) -> int:
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout or ():
            if is_about(line, root):
                terminal.print_result(line)
    return process.returncode
