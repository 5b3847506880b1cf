"""Pods of an audit: the server, and the prober that attempts connections. Pure.

The prober writes its results to its termination message, which is in the pod's status. So an audit
needs no logs and no exec.

Hazard: a tenant's webhook can rewrite a prober. The results of a pod that differs from the prober
must not count, or the tenant would write its own audit.

Hazard: the prober must wait before its first connection. A controller of network policies learns a
new pod's address from the API, and until then every packet of the pod passes.

Hazard: the pods must have no owner. Some network plugins leave out such pods, and an audit with
other pods would not find that.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_vc.audit.addresses import TargetAddress
from kubectl_vc.audit.probes import Answer
from kubeio import Object
from tenancy import wellknown

SERVER_PORT = 8080
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "kubectl-vc-audit"
MARKS = {MANAGED_BY: MANAGER}
"""Labels of every object that an audit creates."""
SERVER_LABELS = {**MARKS, "app.kubernetes.io/component": "server"}

_SERVED = "/served"
"""Folder of the server. It is empty."""
_SETTLE_SECONDS = 5
_CONNECT_SECONDS = 3
_WAIT_SECONDS = 300
_USER_ID = 65532
_CONTAINER = "main"
_DECISIVE_FIELDS = ("image", "command", "args", "lifecycle", "volumeMounts")
"""Fields of a container that decide the program that runs."""
_ANSWERS = {answer.value: answer for answer in Answer}
_SCRIPT = """\
sleep {settle}
probe() {{
  output=$(nc -w {seconds} "$2" "$3" -e true 2>&1) && {{ echo "$1=open"; return; }}
  case "$output" in
    *"timed out"*) echo "$1=timeout" ;;
    *refused*|*nreachable*|*"No route"*|*"Cannot assign"*|*"ddress family"*) echo "$1=refused" ;;
    *) echo "$1=no result" ;;
  esac
}}
{{
{probes}
wait
}} > /dev/termination-log
"""


def build_server(name: str, image: str) -> Object:
    """Return a pod that answers on SERVER_PORT."""
    command = ["httpd", "-f", "-p", str(SERVER_PORT), "-h", _SERVED]
    pod = _build_pod(name, image, command, SERVER_LABELS)
    pod["spec"]["volumes"] = [{"name": "empty", "emptyDir": {}}]
    container = pod["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "empty", "mountPath": _SERVED}]
    container["ports"] = [{"name": "http", "containerPort": SERVER_PORT}]
    container["readinessProbe"] = {"tcpSocket": {"port": SERVER_PORT}, "periodSeconds": 1}
    return pod


def build_service(name: str, kind: str) -> Object:
    """Return a Service of a type in front of the server, with an address of each IP family."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": MARKS},
        "spec": {
            "type": kind,
            "ipFamilyPolicy": "PreferDualStack",
            "selector": SERVER_LABELS,
            "ports": [{"name": "http", "port": 80, "targetPort": SERVER_PORT}],
        },
    }


def build_prober(name: str, image: str, endpoints: Sequence[TargetAddress]) -> Object:
    """Return a pod that attempts a connection to each endpoint, and ends."""
    return _build_pod(name, image, ["sh", "-c", build_script(endpoints)], MARKS)


def build_node_prober(
    name: str, image: str, node: str, endpoints: Sequence[TargetAddress]
) -> Object:
    """Return the same pod on the network of one node, as root without capabilities.

    Network policies let a node reach its own pods, as the kubelet does for its probes. Some
    controllers recognise a node's programs by the user root.
    """
    pod = build_prober(name, image, endpoints)
    pod["spec"] |= {
        "hostNetwork": True,
        "nodeName": node,
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return pod


def build_plain_pod(name: str, image: str) -> Object:
    """Return a pod that ends at once. Rows about objects change it."""
    return _build_pod(name, image, ["true"], MARKS)


def build_waiting_pod(name: str, image: str) -> Object:
    """Return a pod that runs for _WAIT_SECONDS, which is longer than a probe of a quota."""
    return _build_pod(name, image, ["sleep", str(_WAIT_SECONDS)], MARKS)


def build_script(endpoints: Sequence[TargetAddress]) -> str:
    """Return the prober's shell script. Its output has one line `number=answer` per endpoint."""
    probes = "\n".join(
        f"probe {number} {shlex.quote(each.host)} {each.port} &"
        for number, each in enumerate(endpoints)
    )
    return _SCRIPT.format(settle=_SETTLE_SECONDS, seconds=_CONNECT_SECONDS, probes=probes)


def parse_answers(text: str, endpoints: Sequence[TargetAddress]) -> dict[TargetAddress, Answer]:
    """Return the answer of each endpoint from a prober's output. A missing line is no result."""
    found = {
        number: answer for number, _, answer in (line.partition("=") for line in text.splitlines())
    }
    return {
        endpoint: _ANSWERS.get(found.get(str(number), ""), Answer.MISSING)
        for number, endpoint in enumerate(endpoints)
    }


def get_termination_message(pod: Mapping[str, Any]) -> str | None:
    """Return a prober's output, or None while it runs."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ended = (_get_container(statuses).get("state") or {}).get("terminated")
    return None if ended is None else str(ended.get("message") or "")


def is_changed(super_pod: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return whether a super pod runs another program than a prober.

    Containers that the super cluster adds do not count. The syncer records those of the tenant.
    """
    annotations = super_pod["metadata"].get("annotations") or {}
    if annotations.get(wellknown.CONTAINERS) != _CONTAINER:
        return True
    found = _get_container(super_pod["spec"]["containers"])
    wanted = _get_container(pod["spec"]["containers"])
    return any((found.get(each) or None) != wanted.get(each) for each in _DECISIVE_FIELDS)


def _get_container(listed: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the prober's container, or its status, from a list. It is empty if absent."""
    return next((each for each in listed if each.get("name") == _CONTAINER), {})


def _build_pod(name: str, image: str, command: Sequence[str], labels: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": _CONTAINER,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": list(command),
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "32Mi"},
                        "limits": {"cpu": "500m", "memory": "64Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
