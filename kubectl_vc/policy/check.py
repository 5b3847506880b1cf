"""`kubectl vc policy check`: whether a TenantPolicy would refuse the objects of a manifest.

Owns the choice of the policy and the report. The decision is in `kubectl_vc.policy.decision`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliError, UsageError
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.policy import unknown_fields
from kubectl_vc.policy.builtin_policies import BUILTIN_POLICIES
from kubectl_vc.policy.decision import ObjectDecision, decide_object
from kubectl_vc.verbs import create_manifests
from kubeio import errors
from tenancy import names, policies, specs
from tenancy.policies import TenantPolicySpec
from tenancy.resources import TENANT_POLICIES


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The flags of `policy check`."""

    filenames: tuple[str, ...]
    policy: str
    """Name of a built-in policy, or path of a file. Empty: baseline."""
    virtual_cluster: str
    """`[NAMESPACE/]NAME` of the VirtualCluster with the policy. Empty: none."""
    form: ReportFormat


_TOP_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


class RefusedError(CliError):
    """At least one object would be refused. The exit code is 1."""


async def run_check(access: ConfigFlags, terminal: Terminal, options: CheckOptions) -> None:
    """Print the decisions. Raises RefusedError if an object would be refused."""
    objects = [
        body
        for source in options.filenames
        for body in parse_objects(create_manifests.load_source(source), source)
    ]
    if options.virtual_cluster:
        policy = await _fetch_policy(access, options.virtual_cluster)
    else:
        policy = load_policy(options.policy or policies.DEFAULT_POLICY_NAME)
    found = [decision for body in objects for decision in decide_object(body, policy)]
    if options.form is ReportFormat.JSON:
        terminal.print_result(json.dumps([build_document(each) for each in found], indent=4))
    else:
        terminal.print_result(build_table(found))
    assumed = sorted({each for decision in found for each in decision.assumptions})
    if assumed:
        terminal.print_warning(f"Assumed to exist in the super cluster: {', '.join(assumed)}.")
    refused = sum(bool(each.refusals) for each in found)
    if refused:
        raise RefusedError(f"{refused} of {len(found)} objects would be refused.")


def parse_objects(text: bytes, source: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a manifest, also those inside of a List. Raises CliError."""
    source = create_manifests.describe_source(source)
    documents = create_manifests.load_documents(text, source)
    if not documents:
        raise CliError(f"{source} has no object. Add one with apiVersion and kind.")
    for document in documents:
        yield from _expand(document, source)


def _expand(document: Any, source: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise CliError(f"{source} has a document without kind. Add apiVersion and kind.")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for each in document["items"]:
            yield from _expand(each, source)
    else:
        yield document


def load_policy(name: str) -> TenantPolicySpec:
    """Return a built-in policy, or the policy of a file. Raises CliError."""
    spec = BUILTIN_POLICIES.get(name)
    if spec is not None:
        return policies.parse_tenant_policy({"metadata": {"name": name}, "spec": spec})
    if not Path(name).is_file():
        known = ", ".join(BUILTIN_POLICIES)
        raise CliError(
            f"{name!r} is neither a built-in TenantPolicy ({known}) nor a file. Use one of them, or"
            " --vc for the policy of a VirtualCluster."
        )
    objects = list(parse_objects(create_manifests.load_source(name), name))
    found = [each for each in objects if each["kind"] == TENANT_POLICIES.kind]
    if len(found) != 1:
        raise CliError(
            f"{name} has {len(found)} objects of the kind TenantPolicy. Use a file with one."
        )
    body = {"metadata": {"name": name}, **found[0]}
    unknown = list(_iterate_unknown(body))
    if unknown:
        raise CliError(
            f"{name} is no valid TenantPolicy: unknown field {', '.join(unknown)}. Correct or"
            " remove it."
        )
    try:
        return policies.parse_tenant_policy(body)
    except (specs.InvalidSpecError, KeyError, TypeError) as problem:
        raise CliError(f"{name} is no valid TenantPolicy: {problem}") from problem


def _iterate_unknown(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of fields that a TenantPolicy does not have.

    An API server refuses them with `kubectl apply`, and drops them otherwise.
    """
    yield from (key for key in body if key not in _TOP_FIELDS)
    spec = body.get("spec")
    yield from unknown_fields.iterate_unknown_fields(spec, TenantPolicySpec, "spec")


async def _fetch_policy(access: ConfigFlags, virtual_cluster: str) -> TenantPolicySpec:
    namespace, _, name = virtual_cluster.rpartition("/")
    if not names.is_dns_label(name):
        raise UsageError(
            f"--vc {virtual_cluster!r} is not a VirtualCluster. Write NAME or NAMESPACE/NAME."
        )
    from kubectl_vc.client import lookup  # noqa: PLC0415 - without --vc a check needs no client
    from kubectl_vc.client.connection import connect_super_cluster  # noqa: PLC0415

    place = namespace or access.namespace
    async with connect_super_cluster(replace(access, namespace=place)) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        policy = policies.get_policy_name(specs.parse_virtual_cluster(body).spec)
        try:
            found = await connection.super_client.get(TENANT_POLICIES, policy)
        except errors.NotFound as problem:
            if policy == policies.DEFAULT_POLICY_NAME:
                return policies.BASELINE_POLICY
            raise CliError(
                f"TenantPolicy {policy}, which the VirtualCluster {name} names, does not exist."
                " Create it, or change spec.policyRef."
            ) from problem
    return policies.parse_tenant_policy(found)


def build_table(found: Sequence[ObjectDecision]) -> str:
    """Return the decisions as a table, one line for each problem."""
    rows: list[tuple[str, ...]] = []
    for each in found:
        where = f"{each.namespace}/{each.name}" if each.namespace else each.name
        problems = each.refusals or each.adjustments
        rows += [
            (f"{each.kind} {where}", each.result, problem.rule, str(problem))
            for problem in problems
        ]
        if not problems:
            rows.append((f"{each.kind} {where}", each.result, "", ""))
    return printers.format_table(("object", "result", "rule", "message"), rows)


def build_document(decision: ObjectDecision) -> dict[str, Any]:
    """Return a decision as a document for programs."""
    return {
        "kind": decision.kind,
        "namespace": decision.namespace,
        "name": decision.name,
        "result": decision.result,
        "problems": [
            {"rule": each.rule, "path": each.path, "message": str(each)}
            for each in (*decision.refusals, *decision.adjustments)
        ],
        "assumed": list(decision.assumptions),
    }
