"""`kubectl vc target doctor`: problems of a target, each with its remedy.

Owns the conversion of conditions to findings. Must not connect to the target, because the user may
be unable to reach it. vc-manager checks it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import connected
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.printers import Format
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import listing
from tenancy import conditions, super_clusters

Result = Literal["ok", "note", "wrong", "unknown"]
_NOBODY = (
    "nobody has looked at it yet; see whether vc-manager runs, and is of a version that knows"
    " SuperClusters"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    target: str
    check: str
    result: Result
    message: str


async def run(access: Access, terminal: Terminal, *, name: str, form: Format) -> None:
    """Print the findings. Raises CliProblem if one of them is a problem."""
    async with connected(access) as connection:
        items = await listing.fetch_all(connection.super_client)
    chosen = [each for each in items if not name or each["metadata"]["name"] == name]
    if name and not chosen:
        raise CliProblem(f"there is no SuperCluster {name}; see `kubectl vc target list`")
    if not chosen:
        terminal.warn("No SuperClusters found; `kubectl vc target join` makes one.")
        return
    found = [finding for each in chosen for finding in findings(each)]
    if form is Format.JSON:
        terminal.say(json.dumps([asdict(each) for each in found], indent=4) + "\n")
    elif form is Format.YAML:
        from kubeio.api.yaml_writer import to_yaml  # noqa: PLC0415 - 40 ms that only this format needs

        terminal.say(to_yaml([asdict(each) for each in found]))
    else:
        terminal.say(table(found))
    ill = sorted({each.target for each in found if each.result in ("wrong", "unknown")})
    if ill:
        raise CliProblem(f"not all is well with {', '.join(ill)}")


def findings(body: Mapping[str, Any]) -> list[Finding]:
    """Return the findings from a SuperCluster's conditions, each with its remedy."""
    name, status = body["metadata"]["name"], body.get("status") or {}
    listed = status.get("conditions")
    if not listed:
        return [Finding(name, "Looked at", "unknown", _NOBODY)]
    found = []
    if status.get("observedGeneration", 0) < body["metadata"].get("generation", 0):
        text = f"what follows is older than the newest change of the SuperCluster; {_NOBODY}"
        found.append(Finding(name, "Looked at", "unknown", text))
    for kind in (*super_clusters.CONDITIONS, *super_clusters.SYNCER_CONDITIONS):
        condition = conditions.find(listed, kind)
        if condition is None or kind == super_clusters.READY:
            continue
        message = " ".join(str(condition.get("message") or "").split())
        found.append(Finding(name, kind, _result(kind, condition, body), message))
    if name != super_clusters.HOME and not resolvers(body):
        found.append(Finding(name, "Resolver", "note", no_resolver(name)))
    return found


def no_resolver(name: str) -> str:
    """Return the note about a target without a resolver."""
    return (
        "nothing resolves names there for tenants, so only pods with dnsPolicy None come there, and"
        " those of tenants whose policy lets them use the nodes' own; set spec.network.resolvers,"
        f" or run `kubectl vc target join {name}` with --resolver"
    )


def resolvers(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the resolvers' IP addresses of a SuperCluster."""
    network = (body.get("spec") or {}).get("network") or {}
    return network.get("resolvers") or ()


def table(found: Sequence[Finding]) -> str:
    """Return the findings as a table."""
    rows = [(each.target, each.check, each.result, each.message) for each in found]
    return printers.table(("name", "check", "result", "message"), rows)


def _result(kind: str, condition: Mapping[str, Any], body: Mapping[str, Any]) -> Result:
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
