"""The kubelet's calls as subresources of a pod in the super API server. Pure.

Owns the table from a kubelet's options to the API's. Must not know whether the pod is the caller's;
that has been decided before (`vnagent.authz.pod_authorizer`).

Hazard: the API knows a pod by its name alone, there is no place for a UID. Between the gate's look
and the call another pod of that name may have come. It can only be in the same super namespace,
which is one tenant's and no other's, so what is reached is that tenant's still: in place of the
pod that it asked for a moment ago, the one that it has put there since; or one that an admin of the
super cluster has put there by hand, under the very name. The same is so at the kubelet, which looks
up the pods of logs by name, too. What differs may be the pod's network or containers: a
pod on the host's network lets its owner at the node's ports from inside as well, and a container
that the super cluster added would have to have the name of one that the tenant wrote before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tenancy import wellknown
from vnagent.protocol import queries, routes
from vnagent.protocol.queries import Pairs
from vnagent.protocol.routes import Route, Verb

Option = Callable[[str], Pairs]
"""From the kubelet's canonical value to what the API wants to read."""


def _same(name: str) -> Option:
    return lambda value: ((name, value),)


def _switch(name: str) -> Option:
    return lambda _: ((name, "true"),)


def _ports(value: str) -> Pairs:
    return tuple(("ports", port) for port in value.split(","))


def _stream(value: str) -> Pairs:
    # All is what comes without a word; where API servers do not know the option they refuse it.
    return () if value == "All" else (("stream", value),)


_LOG_OPTIONS: Mapping[str, Option] = {
    "follow": _switch("follow"),
    "previous": _switch("previous"),
    "timestamps": _switch("timestamps"),
    "sinceSeconds": _same("sinceSeconds"),
    "sinceTime": _same("sinceTime"),
    "tailLines": _same("tailLines"),
    "limitBytes": _same("limitBytes"),
    "stream": _stream,
}
_STREAM_OPTIONS: Mapping[str, Option] = {
    "input": _switch("stdin"),
    "output": _switch("stdout"),
    "error": _switch("stderr"),
    "tty": _switch("tty"),
}


@dataclass(frozen=True, slots=True)
class _Row:
    subresource: str
    options: Mapping[str, Option]


_ROWS: Mapping[Verb, _Row] = {
    Verb.LOGS: _Row("log", _LOG_OPTIONS),
    Verb.EXEC: _Row("exec", {**_STREAM_OPTIONS, "command": _same("command")}),
    Verb.ATTACH: _Row("attach", _STREAM_OPTIONS),
    Verb.PORT_FORWARD: _Row("portforward", {"port": _ports}),
}


def pods_on(node: str) -> str:
    """Return the request target of the list of a node's pods, as fresh as the store has it.

    Without a resourceVersion the API server answers with nothing older than the question.
    """
    return "/api/v1/pods?" + queries.render((("fieldSelector", f"spec.nodeName={node}"),))


def pod_of(registration: str, vc_uid: str, route: Route) -> str:
    """Return the request target of the list of the one pod that a tenant means in a target.

    By labels and name in all namespaces, as a super namespace is never spelled here; what the list
    then shows is judged by its record. Without a limit, which would have the API server read its
    whole store instead of its cache. Raises ValueError for what cannot stand in a selector.
    """
    routes.check(namespace=route.tenant_namespace, pod=route.pod, uid=vc_uid)
    wanted = {
        wellknown.SUPER_CLUSTER: registration,
        wellknown.VC_UID: vc_uid,
        wellknown.NAMESPACE: route.tenant_namespace,
    }
    labels = ",".join(f"{key}={value}" for key, value in wanted.items())
    pairs = (("labelSelector", labels), ("fieldSelector", f"metadata.name={route.pod}"))
    return "/api/v1/pods?" + queries.render(pairs)


def offers(verb: Verb) -> bool:
    """Tell whether the API has such a call."""
    return verb in _ROWS


def render(route: Route, super_namespace: str) -> str | None:
    """Return the API's request target for a route that the gate has let through.

    None when the API has no such call. Raises ValueError when the namespace is none.
    """
    row = _ROWS.get(route.verb)
    if row is None:
        return None
    routes.check(namespace=super_namespace, pod=route.pod)
    path = f"/api/v1/namespaces/{super_namespace}/pods/{route.pod}/{row.subresource}"
    container: Pairs = (("container", route.container),) if route.container else ()
    options = (pair for key, value in route.query for pair in row.options[key](value))
    query = queries.render((*container, *options))
    return f"{path}?{query}" if query else path
