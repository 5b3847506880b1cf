"""Authentication of a tenant's users by `spec.auth`: check, file, and report of the reload.

Hazard: an API server that starts with an invalid configuration exits. Issuers are therefore written
only after each rule was checked, and after the running API server of the tenant compiled each
expression. Until then the file keeps the issuers that it has.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kubeio import errors
from kubeio.api.client import Client
from tenancy import conditions, wellknown
from tenancy.access.specs import AuthSpec
from tenancy.resources import VALIDATING_ADMISSION_POLICIES
from vcmanager.phases import startup_order
from vcmanager.plan.access import (
    authentication_config,
    authentication_rules,
    expression_check,
    reload_metrics,
)
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

INVALID, NOT_CHECKED, RELOADING, RELOAD_FAILED, IN_USE = (
    "InvalidAuthentication",
    "NotChecked",
    "Reloading",
    "ReloadFailed",
    "InUse",
)
"""Reasons of the condition AuthenticationReady."""
_KEPT = "The API server keeps its present issuers."
_MAX_SHOWN, _MAX_TEXT = 3, 1000
"""Texts in a message, and characters of each."""


async def plan_authentication(
    wish: PlanInput,
    plan: ControlPlane,
    snapshot: ObservedObjects,
    report: ReconcileStatus,
    connect: Callable[[], Awaitable[Client]],
) -> ControlPlane:
    """Return the plan with the issuers that may be written. A problem becomes the condition.

    `connect` returns the client of the tenant. It is called for changed issuers only.
    """
    auth, basis = wish.spec.auth, authentication_config.get_basis(plan)
    if auth is None or not auth.jwt:
        return plan
    if basis is None:
        message = (
            f"spec.auth: ClusterVersion {wish.version_name} has bundles, which configure"
            " authentication themselves. Use a ClusterVersion of the short form."
        )
        _fail(report, INVALID, message)
        return plan
    live = authentication_config.get_file(
        snapshot.get("ConfigMap", authentication_config.CONFIG_MAP)
    )
    desired = authentication_config.build_file(basis, auth)
    kept = authentication_config.keep_issuers(basis, live)
    own_issuer = f"https://kubernetes.default.svc.{wish.spec.cluster_domain}"
    problems = authentication_rules.list_problems(auth, own_issuer=own_issuer)
    problems = problems or _find_foreign_names(auth)
    if not problems and kept != desired:
        if not startup_order.is_api_ready(snapshot):
            message = f"spec.auth is checked when the tenant's API server is ready. {_KEPT}"
            report.set_condition(wellknown.AUTHENTICATION_READY, "False", NOT_CHECKED, message)
            return authentication_config.replace_file(plan, kept)
        try:
            problems = await _compile_expressions(await connect(), auth)
        except errors.KubeError as problem:
            message = f"The tenant's API server did not check spec.auth yet: {problem}. {_KEPT}"
            report.set_condition(wellknown.AUTHENTICATION_READY, "False", NOT_CHECKED, message)
            return authentication_config.replace_file(plan, kept)
    if problems:
        _fail(report, INVALID, f"{_join(problems, '. ')}. {_KEPT}")
        return authentication_config.replace_file(plan, kept)
    return authentication_config.replace_file(plan, desired)


async def report_authentication(
    wish: PlanInput,
    plan: ControlPlane,
    report: ReconcileStatus,
    old: Mapping[str, Any],
    *,
    client: Client,
    is_held: bool,
) -> None:
    """Set the condition by the metric of the API server, unless a problem has set it.

    The metric is not read again while the issuers stay. `is_held` means that the file waits for a
    rollout.
    """
    before = conditions.find_condition(old.get("conditions"), wellknown.AUTHENTICATION_READY)
    issuers = wish.spec.auth.jwt if wish.spec.auth is not None else ()
    file = authentication_config.get_file(authentication_config.find_config_map(plan))
    if file is None or report.get_condition(wellknown.AUTHENTICATION_READY):
        return
    if not issuers and before is None:
        return
    used = authentication_config.compute_hash(file)
    urls = _join([each.issuer.url for each in issuers], ", ")
    message = f"The API server uses the issuers {urls} ({used[:19]})."
    if before is not None and (before["status"], before["message"]) == ("True", message):
        report.set_condition(wellknown.AUTHENTICATION_READY, "True", IN_USE, message)
        return
    if is_held:
        waiting = "The change of spec.auth waits for the rollout of the control plane."
        report.set_condition(
            wellknown.AUTHENTICATION_READY, "False", wellknown.WAITING_FOR_ROLLOUT, waiting
        )
        return
    try:
        lines = await client.find_lines(
            "/metrics", start=reload_metrics.PREFIX, max_bytes=reload_metrics.MAX_BYTES
        )
    except (errors.KubeError, TimeoutError):
        lines = []
    state = reload_metrics.parse_metrics(lines)
    if state.hash == used:
        if issuers:
            report.set_condition(wellknown.AUTHENTICATION_READY, "True", IN_USE, message)
        return
    since = conditions.parse_transition_time(before) if before is not None else None
    if state.failed is not None and since is not None and state.failed > since:
        failure = (
            "The API server could not use the changed issuers, and keeps the former ones. Check"
            f" that it can reach each issuer ({urls}), and that certificateAuthority is right. It"
            " tries again each minute."
        )
        _fail(report, RELOAD_FAILED, failure)
        return
    reloading = "The API server reads the changed issuers within 3 min, without a restart."
    report.set_condition(wellknown.AUTHENTICATION_READY, "False", RELOADING, reloading)


def _find_foreign_names(auth: AuthSpec) -> list[str]:
    found: list[str] = []
    for number, _ in enumerate(auth.jwt):
        for each in expression_check.list_expressions(auth, number):
            name = expression_check.find_foreign_name(each)
            if name:
                found.append(f"{each.field}: there is no variable {name!r}. Use {each.variable}")
    return found


async def _compile_expressions(client: Client, auth: AuthSpec) -> list[str]:
    """Return the refusals of the API server. Raises KubeError if it does not answer."""
    found: list[str] = []
    for number, _ in enumerate(auth.jwt):
        expressions = expression_check.list_expressions(auth, number)
        if not expressions:
            continue
        policy = expression_check.build_policy(expressions)
        try:
            await client.create(VALIDATING_ADMISSION_POLICIES, policy, dry_run=True)
        except errors.Invalid as problem:
            message = problem.server_message
            found.append(expression_check.describe_refusal(expressions, problem.causes, message))
    return found


def _join(texts: list[str], separator: str) -> str:
    """Return the first texts. A message must not be cut, because it is compared with the next."""
    more = f" and {len(texts) - _MAX_SHOWN} more" * (len(texts) > _MAX_SHOWN)
    return separator.join(each[:_MAX_TEXT] for each in texts[:_MAX_SHOWN]) + more


def _fail(report: ReconcileStatus, reason: str, message: str) -> None:
    report.set_condition(wellknown.AUTHENTICATION_READY, "False", reason, message, is_failure=True)
