"""`kubectl vc target doctor`: problems of a target, each with its remedy.

Owns the conversion of conditions to findings. Must not connect to the target without a kubeconfig
of it, because the user may be unable to reach it. vc-manager checks it. MachineDeployments are read
in the home cluster, or with that kubeconfig.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliError, NotFoundError
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import listing, machine_deployments, node_groups
from kubectl_vc.target.check_results import CheckResult, CheckState
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import ClientOptions
from tenancy import conditions, super_clusters, wellknown

_SUMMARIES = (super_clusters.READY, wellknown.STALLED)
"""Conditions that repeat another one."""
_NOT_PROBED_TEXT = (
    "vc-manager has not checked it yet. Check that vc-manager runs, and that its version supports"
    " SuperClusters."
)


@dataclasses.dataclass(frozen=True, slots=True)
class MachinesAccess:
    """The flags of the cluster with the MachineDeployments. Empty stands for the home cluster."""

    kubeconfig: str = ""
    context: str = ""

    @property
    def is_given(self) -> bool:
        """Return whether a flag names a cluster."""
        return bool(self.kubeconfig or self.context)


HOME_MACHINES = MachinesAccess()


async def run_doctor(
    access: ConfigFlags,
    terminal: Terminal,
    *,
    name: str,
    form: OutputFormat,
    machines: MachinesAccess = HOME_MACHINES,
) -> None:
    """Print the findings. Raises CliProblem if one of them is a problem."""
    groups: list[CheckResult] = []
    async with connect_super_cluster(access) as connection:
        items = await listing.fetch_super_clusters(connection.super_client)
        if not machines.is_given and name in ("", super_clusters.HOME):
            groups = await _check_machines(
                super_clusters.HOME, connection.super_client, is_asked=False
            )
    if machines.is_given:
        groups = await _check_other_machines(name or "target", machines)
    chosen = [each for each in items if not name or each["metadata"]["name"] == name]
    if name and not chosen:
        raise NotFoundError(
            f"SuperCluster {name} was not found. List all with `kubectl vc target list`."
        )
    if not (chosen or groups):
        terminal.print_warning("No SuperClusters found. Add one with `kubectl vc target join`.")
        return
    found = [*(finding for each in chosen for finding in list_check_results(each)), *groups]
    if form is OutputFormat.JSON:
        terminal.print_result(
            json.dumps([dataclasses.asdict(each) for each in found], indent=4) + "\n"
        )
    elif form is OutputFormat.YAML:
        from kubeio.api.yaml_writer import to_yaml  # noqa: PLC0415 - 40 ms that only this format needs

        terminal.print_result(to_yaml([dataclasses.asdict(each) for each in found]))
    else:
        terminal.print_result(build_table(found))
    ill = sorted({each.target for each in found if each.result in ("wrong", "unknown")})
    if ill:
        raise CliError(f"checks failed for {', '.join(ill)}. See the table above.")


async def _check_other_machines(target: str, machines: MachinesAccess) -> list[CheckResult]:
    endpoint = await loading.load_user_kubeconfig(
        machines.kubeconfig, machines.context, context_flag="--target-context"
    )
    options = ClientOptions(user_agent="kubectl-vc", counts_requests=False)
    async with Client(endpoint, options) as client:
        return await _check_machines(target, client, is_asked=True)


async def _check_machines(target: str, client: Client, *, is_asked: bool) -> list[CheckResult]:
    """Return the findings about the node groups of one cluster.

    `is_asked` is True if the user named this cluster. Otherwise its lack of Cluster API is normal.
    """
    try:
        groups = await machine_deployments.fetch_node_groups(client)
    except errors.Forbidden:
        return [machine_deployments.describe_refused(target)]
    if groups is None:
        return [machine_deployments.describe_absent(target)] if is_asked else []
    return node_groups.list_check_results(target, groups)


def list_check_results(body: Mapping[str, Any]) -> list[CheckResult]:
    """Return the findings from a SuperCluster's conditions, each with its remedy."""
    name, status = body["metadata"]["name"], body.get("status") or {}
    listed = status.get("conditions")
    if not listed:
        return [CheckResult(name, "Checked", "unknown", _NOT_PROBED_TEXT)]
    found = []
    if status.get("observedGeneration", 0) < body["metadata"].get("generation", 0):
        text = (
            "the conditions are older than the newest change of the SuperCluster."
            f" {_NOT_PROBED_TEXT}"
        )
        found.append(CheckResult(name, "Checked", "unknown", text))
    for kind in (*super_clusters.CONDITIONS, *super_clusters.SYNCER_CONDITIONS):
        condition = conditions.find_condition(listed, kind)
        if condition is None or kind in _SUMMARIES:
            continue
        message = " ".join(str(condition.get("message") or "").split())
        found.append(CheckResult(name, kind, _evaluate_condition(kind, condition, body), message))
    if name != super_clusters.HOME and not get_resolvers(body):
        found.append(CheckResult(name, "Resolver", "note", describe_missing_resolver(name)))
    return found


def describe_missing_resolver(name: str) -> str:
    """Return the note about a target without a resolver."""
    return (
        "tenants have no DNS server in the target. Only pods with dnsPolicy None, and pods of"
        " tenants that may use the nodes' DNS servers, can run there. Set spec.network.resolvers,"
        f" or run `kubectl vc target join {name}` with --resolver."
    )


def get_resolvers(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the resolvers' IP addresses of a SuperCluster."""
    network = (body.get("spec") or {}).get("network") or {}
    return network.get("resolvers") or ()


def build_table(found: Sequence[CheckResult]) -> str:
    """Return the findings as a table."""
    rows = [(each.target, each.check, each.result, each.message) for each in found]
    return printers.format_table(("name", "check", "result", "message"), rows)


def _evaluate_condition(
    kind: str, condition: Mapping[str, Any], body: Mapping[str, Any]
) -> CheckState:
    status = condition.get("status")
    if kind == super_clusters.LOSSES_HELD:
        return "ok" if status == "False" else "wrong"
    if kind == super_clusters.NETWORKS_OVERLAP:
        if status == "False":
            return "ok"
        network = (body.get("spec") or {}).get("network") or {}
        return "wrong" if status == "True" and network.get("reachable") else "note"
    if status == "True":
        return "ok"
    return "wrong" if status == "False" else "unknown"
