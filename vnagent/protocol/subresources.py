"""Kubelet calls as subresources of a pod in the super API server. Pure.

The module owns the table from a kubelet's options to the API's. It must not know whether the pod is
the caller's. `vnagent.authz.pod_authorizer` has decided that before.

Hazard: a call must stay in the pod's super namespace, because the API knows a pod by its name alone
and has no place for a UID. Otherwise a call could reach the pod of another tenant. Between the
authorizer's decision and the call, another pod of that name may be created. It can only be in the
same super namespace, which belongs to one tenant. The call then reaches the pod that the tenant has
created since. It may also reach a pod that an admin of the super cluster has created by hand under
the same name. The kubelet has the same limit, because it finds the pods of logs by name, too. The
new pod's network or containers may differ. A pod on the host's network gives its owner access to
the node's ports from inside as well. A container that the super cluster added would need the name
of a container that the tenant wrote before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tenancy import wellknown
from vnagent.protocol import queries, routes
from vnagent.protocol.queries import QueryPairs
from vnagent.protocol.routes import Route, RouteVerb

QueryOption = Callable[[str], QueryPairs]
"""Function from the kubelet's canonical value to the query of the API."""


def _keep_value(name: str) -> QueryOption:
    return lambda value: ((name, value),)


def _map_switch(name: str) -> QueryOption:
    return lambda _: ((name, "true"),)


def _map_ports(value: str) -> QueryPairs:
    return tuple(("ports", port) for port in value.split(","))


def _map_stream(value: str) -> QueryPairs:
    # All is the default. API servers that do not know the option refuse it.
    return () if value == "All" else (("stream", value),)


_LOG_OPTIONS: Mapping[str, QueryOption] = {
    "follow": _map_switch("follow"),
    "previous": _map_switch("previous"),
    "timestamps": _map_switch("timestamps"),
    "sinceSeconds": _keep_value("sinceSeconds"),
    "sinceTime": _keep_value("sinceTime"),
    "tailLines": _keep_value("tailLines"),
    "limitBytes": _keep_value("limitBytes"),
    "stream": _map_stream,
}
_STREAM_OPTIONS: Mapping[str, QueryOption] = {
    "input": _map_switch("stdin"),
    "output": _map_switch("stdout"),
    "error": _map_switch("stderr"),
    "tty": _map_switch("tty"),
}


@dataclass(frozen=True, slots=True)
class _SubresourceRow:
    subresource: str
    options: Mapping[str, QueryOption]


_SUBRESOURCES: Mapping[RouteVerb, _SubresourceRow] = {
    RouteVerb.LOGS: _SubresourceRow("log", _LOG_OPTIONS),
    RouteVerb.EXEC: _SubresourceRow("exec", {**_STREAM_OPTIONS, "command": _keep_value("command")}),
    RouteVerb.ATTACH: _SubresourceRow("attach", _STREAM_OPTIONS),
    RouteVerb.PORT_FORWARD: _SubresourceRow("portforward", {"port": _map_ports}),
}


def build_node_pods_target(node: str) -> str:
    """Return the request target of the list of a node's pods, as fresh as etcd has it.

    Without a resourceVersion the API server returns nothing older than the request.
    """
    return "/api/v1/pods?" + queries.render_query((("fieldSelector", f"spec.nodeName={node}"),))


def build_pod_list_target(registration: str, vc_uid: str, route: Route) -> str:
    """Return the request target of the list of the one pod that a tenant means in a target.

    The list selects by labels and name in all namespaces, because no super namespace is built here.
    The record on the listed pod then decides. The list has no limit, because with a limit the API
    server reads its whole store instead of its cache. Raises ValueError for a token that cannot
    stand in a selector.
    """
    routes.check_path_tokens(namespace=route.tenant_namespace, pod=route.pod, uid=vc_uid)
    wanted = {
        wellknown.SUPER_CLUSTER: registration,
        wellknown.VC_UID: vc_uid,
        wellknown.NAMESPACE: route.tenant_namespace,
    }
    labels = ",".join(f"{key}={value}" for key, value in wanted.items())
    pairs = (("labelSelector", labels), ("fieldSelector", f"metadata.name={route.pod}"))
    return "/api/v1/pods?" + queries.render_query(pairs)


def is_offered(verb: RouteVerb) -> bool:
    """Return whether the API has such a call."""
    return verb in _SUBRESOURCES


def render_api_target(route: Route, super_namespace: str) -> str | None:
    """Return the API's request target for a route that the authorizer has admitted.

    Returns None if the API has no such call. Raises ValueError if the namespace is malformed.
    """
    row = _SUBRESOURCES.get(route.verb)
    if row is None:
        return None
    routes.check_path_tokens(namespace=super_namespace, pod=route.pod)
    path = f"/api/v1/namespaces/{super_namespace}/pods/{route.pod}/{row.subresource}"
    container: QueryPairs = (("container", route.container),) if route.container else ()
    options = (pair for key, value in route.query for pair in row.options[key](value))
    query = queries.render_query((*container, *options))
    return f"{path}?{query}" if query else path
