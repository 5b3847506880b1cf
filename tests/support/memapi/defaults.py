"""Additions of API servers to objects that are created or changed: defaults and admission. Pure.

Owns the size that an object has on the wire. Must not refuse anything.
"""

import base64
import ipaddress
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

COUNTED = frozenset(
    {
        "EndpointSlice",
        "Ingress",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "TenantPolicy",
        "VirtualCluster",
    }
)
"""Kinds whose objects have a generation."""

_EXECUTE = [
    {
        "effect": "NoExecute",
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
_ACCESS = "kube-api-access-7xk2p"
_ACCESS_VOLUME: Object = {
    "name": _ACCESS,
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    "name": "kube-root-ca.crt",
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            "path": "namespace",
                        }
                    ]
                }
            },
        ],
    },
}
_ACCESS_MOUNT = {
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "name": _ACCESS,
    "readOnly": True,
}


@dataclass(kw_only=True)
class AdmissionDefaults:
    """Additions of one cluster."""

    service_range: str
    accounts: bool
    """Whether pods get an account and its token."""
    _addresses: "itertools.count[int]" = field(default_factory=lambda: itertools.count(20))

    def complete(self, kind: str, body: Object) -> None:
        """Fill a new object in."""
        if kind in COUNTED:
            body["metadata"]["generation"] = 1
        complete = _BY_KIND.get(kind)
        if complete is not None:
            complete(body, self)

    def mend(self, kind: str, body: Object, there: Object) -> None:
        """Fill in what a changed object lacks, given what it was."""
        mend = _MENDED.get(kind)
        if mend is not None:
            mend(body, there)

    def address(self) -> str:
        """Return the next free address for a Service."""
        found = ipaddress.ip_network(self.service_range).network_address + next(self._addresses)
        return str(found)


def _pod(body: Object, admission: AdmissionDefaults) -> None:
    spec = body["spec"]
    if admission.accounts and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = "default"
        spec["volumes"] = [*(spec.get("volumes") or []), _ACCESS_VOLUME]
        for container in spec["containers"]:
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [*mounts, _ACCESS_MOUNT]
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        _container(container)
    for volume in spec.get("volumes", ()):
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if source in volume:
                volume[source].setdefault("defaultMode", 420)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    _tolerate(spec)
    limits = [container["resources"].get("limits") for container in spec["containers"]]
    quality = "Guaranteed" if all(limits) else "BestEffort"
    body["status"] = {"phase": "Pending", "qosClass": quality}


def _tolerate(spec: Object) -> None:
    known = {toleration.get("key") for toleration in spec.get("tolerations", ())}
    missing = [each for each in _EXECUTE if each["key"] not in known]
    spec["tolerations"] = [*spec.get("tolerations", ()), *missing]


def _container(container: Object) -> None:
    container.setdefault("imagePullPolicy", "IfNotPresent")
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])


def _probe(probe: Object) -> None:
    if "httpGet" in probe:
        probe["httpGet"].setdefault("scheme", "HTTP")
    for key, value in (
        ("failureThreshold", 3),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("timeoutSeconds", 1),
    ):
        probe.setdefault(key, value)


def _service(body: Object, admission: AdmissionDefaults) -> None:
    spec = body["spec"]
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ExternalName":
        spec["clusterIP"] = spec.get("clusterIP") or admission.address()
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("sessionAffinity", "None")
    _ports(spec)
    body["status"] = {"loadBalancer": {}}


def _namespace(body: Object, _: AdmissionDefaults) -> None:
    labels = body["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = body["metadata"]["name"]
    body["spec"] = {"finalizers": ["kubernetes"]}
    body["status"] = {"phase": "Active"}


def _secret(body: Object, _: AdmissionDefaults) -> None:
    _mend_secret(body, {})


def _mend_pod(body: Object, there: Object) -> None:
    spec = body["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        _container(container)
    for key, value in there["spec"].items():
        if key in _POD_DEFAULTS:
            spec.setdefault(key, value)
    _tolerate(spec)


_POD_DEFAULTS = frozenset(
    {
        "dnsPolicy",
        "enableServiceLinks",
        "preemptionPolicy",
        "priority",
        "restartPolicy",
        "schedulerName",
        "securityContext",
        "terminationGracePeriodSeconds",
    }
)


def _mend_service(body: Object, there: Object) -> None:
    spec = body["spec"]
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ExternalName" and there["spec"].get("clusterIP"):
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec[key] = spec.get(key) or there["spec"].get(key)
        spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("sessionAffinity", "None")
    _ports(spec)


def _ports(spec: Object) -> None:
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])


def _mend_namespace(body: Object, there: Object) -> None:
    labels = body["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = body["metadata"]["name"]
    body["spec"] = there.get("spec") or {}


def _mend_secret(body: Object, _: Object) -> None:
    body.setdefault("type", "Opaque")
    _encode(body)


def _encode(body: Object) -> None:
    plain = body.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}


_BY_KIND: Mapping[str, Callable[[Object, AdmissionDefaults], None]] = {
    "Namespace": _namespace,
    "Pod": _pod,
    "Secret": _secret,
    "Service": _service,
}
_MENDED: Mapping[str, Callable[[Object, Object], None]] = {
    "Namespace": _mend_namespace,
    "Pod": _mend_pod,
    "Secret": _mend_secret,
    "Service": _mend_service,
}
