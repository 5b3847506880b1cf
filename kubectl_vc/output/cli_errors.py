"""Error messages of the command line, one sentence each, and the exit codes.

Owns the wording of refusals by the API server. Must not know the verbs. Hazard: each message must
name the right to request and the person to ask. Otherwise a reader without rights in the super
cluster cannot continue.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubeio import errors
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS, Resource

INSTALL_HINT = (
    "If the kubeconfig is a tenant's, use the super cluster's kubeconfig. Otherwise, ask a"
    " platform administrator to install the Helm chart virtual-cluster."
)
_UNCHECKED_RULES_TEXT = "some validation rules were not checked"
_ADMISSION_POLICY = re.compile(
    r"ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: "
)
_RBAC_REFUSAL = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group'
    r' "(?P<group>[^"]*)" (?:in the namespace "(?P<namespace>[^"]*)"|at the cluster scope)'
)
_SHOWN_VALUE = re.compile(r'("[^"]{0,80}"|-?[0-9.]+|true|false|null): ')
"""Wrong value at the begin of a cause. The user has just written it."""
_READ_VERBS = frozenset({"get", "list", "watch"})


NOT_FOUND_EXIT_CODE = 3


class CliError(Exception):
    """A command cannot continue.

    The message gives the reason and the remedy. The exit code is 1.
    """

    exit_code = 1


class UsageError(CliError):
    """The command was called wrongly. The exit code is 2."""

    exit_code = 2

    def __init__(self, text: str, *, path: tuple[str, ...] | None = None) -> None:
        """`path` is the command whose help explains the usage. None: the one that runs."""
        super().__init__(text)
        self.path = path


class NotFoundError(CliError):
    """An object that the command names does not exist. The exit code is 3."""

    exit_code = NOT_FOUND_EXIT_CODE


class WaitTimeoutError(CliError):
    """The wait took too long. The work goes on. The exit code is 4."""

    exit_code = 4


class ReaderGoneError(CliError):
    """The reader of the output has ended, as `head -1` does. The exit code is that of SIGPIPE."""

    exit_code = 141


@dataclass(frozen=True, slots=True)
class RbacDenial:
    """A refusal by RBAC, parsed from the API server's message."""

    user: str
    verb: str
    resource: str
    group: str
    namespace: str
    """Empty at cluster scope."""


def describe_error(problem: errors.KubeError) -> str:
    """Return the message for a user about an error of the API client."""
    for kind, tell in _DESCRIPTIONS:
        if isinstance(problem, kind):
            return tell(problem)
    return str(problem)


def get_exit_code(problem: errors.KubeError) -> int:
    """Return the exit code for an error of the API client: 3 for a missing object, otherwise 1."""
    is_missing = isinstance(problem, errors.NotFound) and bool(problem.details.get("name"))
    return NOT_FOUND_EXIT_CODE if is_missing else CliError.exit_code


def describe_os_error(problem: OSError) -> str:
    """Return the message about a file that cannot be used, such as one with a too long name."""
    reason = problem.strerror or str(problem)
    return f"{problem.filename}: {reason}." if problem.filename else f"{reason}."


def get_server_message(problem: errors.ApiError) -> str:
    """Return the API server's own message, in one line."""
    return " ".join(problem.server_message.split())


def describe_server_problem(error: errors.KubeError) -> str:
    """Return the server and the problem. Method and path do not help a user of a verb."""
    if error.request is None or isinstance(error, errors.NotConnected):
        return error.problem
    return f"{error.request.server}: {error.problem}"


def describe_invalid(problem: errors.Invalid) -> str:
    """Return the invalid fields of an object, each with the API server's message about it."""
    told = [
        _describe_cause(str(cause.get("field") or ""), str(cause.get("message") or ""))
        for cause in problem.causes
        if _UNCHECKED_RULES_TEXT not in str(cause.get("message"))
    ]
    if not told:
        return _ADMISSION_POLICY.sub("", get_server_message(problem))
    kind, name = problem.details.get("kind", "object"), problem.details.get("name", "")
    known = {each.plural: each.kind for each in (VIRTUAL_CLUSTERS, CLUSTER_VERSIONS)}
    shown = f'the {known.get(kind, kind)} "{name}" is invalid'
    return f"{shown}: {'. '.join(dict.fromkeys(told))}."


def parse_denial(message: str) -> RbacDenial | None:
    """Parse an RBAC refusal. None if a quota, a webhook or another check refused."""
    found = _RBAC_REFUSAL.search(message)
    return (
        RbacDenial(**{key: value or "" for key, value in found.groupdict().items()})
        if found
        else None
    )


def describe_remedy(refused: RbacDenial) -> str:
    """Return the request to a platform administrator that removes the refusal."""
    roles = {
        VIRTUAL_CLUSTERS.plural: (
            "virtual-cluster-view" if refused.verb in _READ_VERBS else "virtual-cluster-edit"
        ),
        CLUSTER_VERSIONS.plural: "virtual-cluster-versions",
    }
    role = roles.get(refused.resource.partition("/")[0])
    if role is None:
        return f"Ask a platform administrator to allow `{refused.verb}` on it."
    binding = "rolebinding" if refused.namespace else "clusterrolebinding"
    where = f" --namespace {refused.namespace}" if refused.namespace else ""
    return (
        f"Ask a platform administrator to run: kubectl create {binding} NAME"
        f" --clusterrole {role} --user {refused.user}{where}"
    )


def describe_object(resource: Resource, name: str, namespace: str = "") -> str:
    """Return the name of an object in messages: `VirtualCluster default/web`."""
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def missing_field(shown: str, condition: Mapping[str, Any], field: str, *, writer: str) -> CliError:
    """Return the error for a condition whose status field an older component has not written.

    `shown` is the name of the object, and `writer` is the component.
    """
    return CliError(
        f"{shown}: the condition {condition['type']} is {condition['status']}, but the field"
        f" status.{field} is missing. The {writer} that wrote the condition is older than this"
        " command. Upgrade virtual-cluster in the super cluster, then run the command again."
    )


def _describe_forbidden(problem: errors.Forbidden) -> str:
    refused = parse_denial(get_server_message(problem))
    if refused is None:
        return (
            "the API server rejected the request:"
            f" {_ADMISSION_POLICY.sub('', get_server_message(problem))}"
        )
    where = f"in the namespace {refused.namespace}" if refused.namespace else "in the whole cluster"
    kind = f"{refused.resource}.{refused.group}" if refused.group else refused.resource
    return f"you ({refused.user}) may not {refused.verb} {kind} {where}. {describe_remedy(refused)}"


def _describe_cause(field: str, message: str) -> str:
    message = _ADMISSION_POLICY.sub("", " ".join(message.split()))
    message = re.sub(r"^(Invalid value|Forbidden|Required value): ", "", message)
    shown = _SHOWN_VALUE.match(message)
    message = message[shown.end() :] if shown else message
    if field in ("", "<nil>") or message.startswith((field, field.rpartition(".")[2])):
        return message
    return f"{field}: {message}"


def _describe_not_found(problem: errors.NotFound) -> str:
    if not problem.details.get("name"):  # the CustomResourceDefinition is missing
        return (
            "this cluster has no CustomResourceDefinitions of VirtualCluster and ClusterVersion."
            f" {INSTALL_HINT}"
        )
    if problem.details.get("kind") == "namespaces":
        return (
            f"{get_server_message(problem)}. Create it with `kubectl create namespace"
            f" {problem.details['name']}`, or choose another with -n."
        )
    return get_server_message(problem)


def _describe_unavailable(error: errors.Unavailable) -> str:
    return (
        f"the API server cannot be reached: {describe_server_problem(error)}. Check"
        " --kubeconfig and --context, and whether `kubectl version` gets an answer."
    )


def _describe_untrusted(error: errors.Untrusted) -> str:
    return (
        f"{describe_server_problem(error)}: the certificate of the API server is not trusted. Put"
        " the certificate of its CA into certificate-authority-data of the kubeconfig."
    )


def _describe_credentials(problem: errors.CredentialsError) -> str:
    return f"{str(problem).removesuffix('.')}."


def _describe_server_error(problem: errors.ServerError) -> str:
    return f"the API server failed: {get_server_message(problem)}. Try again later."


def _describe_unauthorized(problem: errors.Unauthorized) -> str:
    return (
        f"you must be logged in to the server ({get_server_message(problem)}). Log in again, or"
        " choose other credentials with --kubeconfig and --context."
    )


_DESCRIPTIONS: tuple[tuple[type[errors.KubeError], Callable[[Any], str]], ...] = (
    (errors.CredentialsError, _describe_credentials),
    (errors.Untrusted, _describe_untrusted),
    (errors.ServerError, _describe_server_error),
    (errors.Unavailable, _describe_unavailable),
    (errors.Unauthorized, _describe_unauthorized),
    (errors.Forbidden, _describe_forbidden),
    (errors.NotFound, _describe_not_found),
    (errors.Invalid, describe_invalid),
    (errors.ApiError, get_server_message),
)
"""The first matching kind applies, so narrow kinds come before wide ones."""
