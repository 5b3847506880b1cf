"""Allow-list of kubelet paths, and the request path to the kubelet for each. Pure.

The module owns the table of routes. It must not know the caller or the owner of the pod. Hazard: a
path that does not match one strict pattern must be refused before it is parsed further. Otherwise a
tenant could use a credential that reaches every pod of the node. The request to the kubelet is
written from the matched tokens and never copied.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from vnagent.protocol import queries
from vnagent.protocol.errors import RefusalReason, RequestRefusedError

MAX_PATH_BYTES = 1024
"""Limit of a path in bytes. The longest legal path has 63 + 253 + 36 + 63 characters and five
slashes.
"""


class RouteVerb(StrEnum):
    """Kind of a call. The set is closed, so it is safe as a metric label."""

    LOGS = "logs"
    EXEC = "exec"
    ATTACH = "attach"
    RUN = "run"
    """An exec that returns its output as the response."""
    PORT_FORWARD = "portforward"
    STATS = "stats"
    METRICS = "metrics"
    PODS = "pods"
    RUNNING_PODS = "runningpods"
    HEALTH = "health"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A request that the agent may serve, with the names of the tenant."""

    verb: RouteVerb
    method: str
    tenant_namespace: str = ""
    pod: str = ""
    tenant_uid: str = ""
    container: str = ""
    query: queries.QueryPairs = ()

    @property
    def is_upgrade(self) -> bool:
        """Return whether the connection becomes a pipe (101). Otherwise it has one response."""
        return self.verb in _UPGRADE_VERBS

    @property
    def is_read(self) -> bool:
        """Return whether the call is about all of the caller's pods on the node."""
        return self.verb in _READ_VERBS


@dataclass(frozen=True, slots=True)
class _RoutePattern:
    segment: str
    verb: RouteVerb
    methods: tuple[str, ...]
    path: re.Pattern[str]
    options: Callable[[bytes], queries.QueryPairs]


_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = rf"(?P<namespace>{_LABEL})"
_DNS_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_POD = rf"(?P<pod>(?=[^/]{{1,253}}(?:/|\Z)){_DNS_NAME}(?:\.{_DNS_NAME})*)"
_UID = r"(?P<uid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_CONTAINER = rf"(?P<container>{_LABEL})"


def _compile_path(*segments: str) -> re.Pattern[str]:
    return re.compile("".join(segments), re.ASCII)


_ROUTE_PATTERNS = (
    _RoutePattern(
        "containerLogs",
        RouteVerb.LOGS,
        ("GET",),
        _compile_path("/containerLogs", f"/{_NAMESPACE}", f"/{_POD}", f"/{_CONTAINER}"),
        queries.parse_log_options,
    ),
    _RoutePattern(
        "exec",
        RouteVerb.EXEC,
        ("GET", "POST"),
        _compile_path("/exec", f"/{_NAMESPACE}", f"/{_POD}", f"(?:/{_UID})?", f"/{_CONTAINER}"),
        queries.parse_exec_options,
    ),
    _RoutePattern(
        "attach",
        RouteVerb.ATTACH,
        ("GET", "POST"),
        _compile_path("/attach", f"/{_NAMESPACE}", f"/{_POD}", f"(?:/{_UID})?", f"/{_CONTAINER}"),
        queries.parse_attach_options,
    ),
    _RoutePattern(
        "run",
        RouteVerb.RUN,
        ("POST",),
        _compile_path("/run", f"/{_NAMESPACE}", f"/{_POD}", f"(?:/{_UID})?", f"/{_CONTAINER}"),
        queries.parse_run_options,
    ),
    _RoutePattern(
        "portForward",
        RouteVerb.PORT_FORWARD,
        ("GET", "POST"),
        _compile_path("/portForward", f"/{_NAMESPACE}", f"/{_POD}", f"(?:/{_UID})?"),
        queries.parse_port_forward_options,
    ),
    # The kubelet accepts a trailing slash for all but the metrics. It accepts POST for the summary
    # as well, which has no use.
    _RoutePattern(
        "stats",
        RouteVerb.STATS,
        ("GET",),
        _compile_path("/stats/summary/?"),
        queries.parse_summary_options,
    ),
    _RoutePattern(
        "metrics",
        RouteVerb.METRICS,
        ("GET",),
        _compile_path("/metrics/resource"),
        queries.parse_no_options,
    ),
    _RoutePattern(
        "pods", RouteVerb.PODS, ("GET",), _compile_path("/pods/?"), queries.parse_no_options
    ),
    _RoutePattern(
        "runningpods",
        RouteVerb.RUNNING_PODS,
        ("GET",),
        _compile_path("/runningpods/?"),
        queries.parse_no_options,
    ),
    _RoutePattern(
        "healthz", RouteVerb.HEALTH, ("GET",), _compile_path("/healthz"), queries.parse_no_options
    ),
)
_UPGRADE_VERBS = frozenset({RouteVerb.EXEC, RouteVerb.ATTACH, RouteVerb.PORT_FORWARD})
_READ_VERBS = frozenset(
    {RouteVerb.STATS, RouteVerb.METRICS, RouteVerb.PODS, RouteVerb.RUNNING_PODS}
)
_PATH_SEGMENTS = {row.verb: row.segment for row in _ROUTE_PATTERNS}
_TOKEN_PATTERNS = {
    name: re.compile(pattern, re.ASCII)
    for name, pattern in (("namespace", _NAMESPACE), ("pod", _POD), ("uid", _UID))
}


def parse_route(method: bytes, target: bytes) -> Route:
    """Return the route of a raw request line, or raise RefusedError."""
    raw_path, _, raw_query = target.partition(b"?")
    row, found = _match_route(raw_path)
    verb = method.decode("ascii", "replace")
    if verb not in row.methods:
        raise RequestRefusedError(
            405,
            RefusalReason.BAD_METHOD,
            f"{row.segment} takes {' or '.join(row.methods)} requests",
        )
    tokens = {name: token or "" for name, token in found.groupdict().items()}
    return Route(
        verb=row.verb,
        method=verb,
        tenant_namespace=tokens.get("namespace", ""),
        pod=tokens.get("pod", ""),
        tenant_uid=tokens.get("uid", ""),
        container=tokens.get("container", ""),
        query=row.options(raw_query),
    )


def render_kubelet_target(route: Route, *, super_namespace: str, super_uid: str) -> str:
    """Return the kubelet's request target for a route that the authorizer has admitted.

    The super UID stands in the path only if the caller's path had the tenant's UID. Raises
    ValueError if a token from the kubelet's own list does not match the pattern. A path that is
    joined from another token might be a different path.
    """
    check_path_tokens(namespace=super_namespace, pod=route.pod, uid=super_uid)
    uid = super_uid if route.tenant_uid else ""
    segments = (_PATH_SEGMENTS[route.verb], super_namespace, route.pod, uid, route.container)
    return append_query("/" + "/".join(segment for segment in segments if segment), route)


def check_path_tokens(**tokens: str) -> None:
    """Raise ValueError when a namespace, pod or uid cannot stand in a path."""
    for name, token in tokens.items():
        if _TOKEN_PATTERNS[name].fullmatch(token) is None:
            raise ValueError(f"{token!r} is not allowed as {name} in a path")


def append_query(path: str, route: Route) -> str:
    """Return a request target of a checked path and a route's query."""
    query = queries.render_query(route.query)
    return f"{path}?{query}" if query else path


def _match_route(raw_path: bytes) -> tuple[_RoutePattern, re.Match[str]]:
    if len(raw_path) <= MAX_PATH_BYTES and raw_path.isascii():
        path = raw_path.decode("ascii")
        for row in _ROUTE_PATTERNS:
            if found := row.path.fullmatch(path):
                return row, found
    raise RequestRefusedError(404, RefusalReason.NO_ROUTE, "the node agent serves no such path")
