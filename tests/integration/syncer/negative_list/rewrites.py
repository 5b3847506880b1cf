"""Objects that are rewritten or reduced in the super cluster, and the fields of their twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubeio import Object
from syncer.model import builtin_policy, object_meta
from tenancy import names, wellknown
from tenancy.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Resource
from tests.integration.syncer.negative_list.cases import CLASS, IMAGE, OWN_CLASS, of_spec, pod

FieldPath = tuple[str | int, ...]
MISSING = "<missing>"


@dataclass(frozen=True, kw_only=True)
class RewrittenObject:
    """An object that goes down, and what its twin has of it."""

    row: str
    resource: Resource
    body: Object
    has: Mapping[FieldPath, Any]
    """By place. MISSING for what must not be there. `@super` stands for the super namespace."""
    told: str = ""
    """The rule by which the tenant is told of it."""
    number: int = 0

    def __str__(self) -> str:
        """Return the name of the test."""
        return f"{self.number} {self.row}"


def _of_pod(row: str, spec: Object, has: Mapping[FieldPath, Any], **more: Any) -> RewrittenObject:
    return RewrittenObject(row=f"2a {row}", resource=PODS, body=pod(spec), has=has, **more)


def _same(row: str, spec: Object) -> RewrittenObject:
    """Return a pod whose leaves arrive as they are."""
    return _of_pod(row, spec, {("spec", key): value for key, value in spec.items()})


def _of_container(
    row: str, fragment: Object, has: Mapping[FieldPath, Any] | None = None
) -> RewrittenObject:
    wanted = fragment if has is None else has
    place = ("spec", "containers", 0)
    return RewrittenObject(
        row=f"2a {row}",
        resource=PODS,
        body=pod(container=fragment),
        has={
            (*place, *(key if isinstance(key, tuple) else (key,))): value
            for key, value in wanted.items()
        },
    )


def _with_metadata(
    row: str, has: Mapping[FieldPath, Any], spec: Object | None = None, **metadata: Any
) -> RewrittenObject:
    found = {("metadata", *place): value for place, value in has.items()}
    return RewrittenObject(
        row=f"2a {row}", resource=PODS, body=pod(spec or {}, **metadata), has=found
    )


def _reading(field: str) -> Object:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}
    return {"containers": [{"name": "main", "image": IMAGE, "env": [variable]}]}


_STRANGE = "sidecar.istio.io/inject"
_INTERNAL = "service.beta.kubernetes.io/aws-load-balancer-internal"
_TRANSLATED = wellknown.translate_label_key(_STRANGE)
_KEPT = {
    "app": "x",
    "app.kubernetes.io/name": "x",
    "batch.kubernetes.io/job-name": "x",
    "apps.kubernetes.io/pod-index": "0",
    "controller-revision-hash": "x",
}
_TERM: Object = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"app": "x"}},
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "@namespace"}},
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SPREAD: Object = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "x"}},
}
_TOLERATED: Object = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}
_VOLUMES: list[Object] = [
    {"name": "c", "configMap": {"name": "absent", "optional": True, "defaultMode": 420}},
    {"name": "s", "secret": {"secretName": "absent", "optional": True, "defaultMode": 420}},
    {"name": "m", "emptyDir": {"medium": "Memory"}},
    {"name": "p", "persistentVolumeClaim": {"claimName": "absent"}},
]
_CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_DEVICE: Object = {
    "volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "absent"}}],
    "containers": [
        {
            "name": "main",
            "image": IMAGE,
            "volumeDevices": [{"name": "p", "devicePath": "/dev/xvda"}],
        }
    ],
}


def _on_metadata() -> tuple[RewrittenObject, ...]:
    mirror = object_meta.build_mirror_key("labels", _STRANGE)
    other = object_meta.build_mirror_key("annotations", "example.com/note")
    forged = f"{wellknown.DOMAIN}/vcuid"
    return (
        _with_metadata("metadata.name, namespace", {("namespace",): "@super"}),
        _with_metadata(
            "generateName, uid, resourceVersion, generation, timestamps, managedFields, selfLink",
            {("generateName",): MISSING, ("annotations", wellknown.UID): "@uid"},
            generateName="x-",
        ),
        _with_metadata(
            "ownerReferences, finalizers",
            {("ownerReferences",): MISSING, ("finalizers",): MISSING},
            finalizers=["example.com/keep"],
            ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}],
        ),
        _with_metadata(
            "labels, unprefixed and app.kubernetes.io, batch, apps, controller-revision keys",
            {("labels", key): value for key, value in _KEPT.items()},
            labels=_KEPT,
        ),
        _with_metadata(
            "labels, other prefixed keys",
            {
                ("labels", _STRANGE): MISSING,
                ("labels", _TRANSLATED): "true",
                ("annotations", mirror): "true",
            },
            _reading(f"metadata.labels['{_STRANGE}']"),
            labels={_STRANGE: "true"},
        ),
        _with_metadata(
            "annotations, unprefixed", {("annotations", "note"): "x"}, annotations={"note": "x"}
        ),
        _with_metadata(
            "annotations, prefixed",
            {("annotations", "example.com/note"): MISSING, ("annotations", other): "x"},
            _reading("metadata.annotations['example.com/note']"),
            annotations={"example.com/note": "x"},
        ),
        replace(
            _with_metadata(
                "reserved domain keys",
                {
                    ("annotations", wellknown.VC_UID): "@vc",
                    ("labels", wellknown.VC_UID): "@vc",
                    ("labels", wellknown.translate_label_key(wellknown.VC_UID)): "forged",
                    ("annotations", f"{wellknown.DOMAIN}/more"): MISSING,
                },
                annotations={
                    forged: "forged",
                    wellknown.VC_UID: "forged",
                    f"{wellknown.DOMAIN}/more": "x",
                },
                labels={wellknown.VC_UID: "forged"},
            ),
            told="reserved-key",
        ),
        _with_metadata(
            "our labels",
            {("labels", wellknown.VC_UID): "@vc", ("labels", wellknown.NAMESPACE): "@namespace"},
        ),
    )


def _on_containers() -> tuple[RewrittenObject, ...]:
    ca = {"name": names.TENANT_ROOT_CA, "key": "ca.crt", "optional": True}
    limit = {
        "name": "A",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}},
    }
    return (
        _of_container("image", {"image": "other.example/app@sha256:" + "0" * 64}),
        _of_container("imagePullPolicy", {"imagePullPolicy": "IfNotPresent"}),
        _of_container(
            "command, args, workingDir, stdin*, tty, terminationMessage*",
            {
                "command": ["a", "b"],
                "args": ["c"],
                "workingDir": "/w",
                "stdin": True,
                "stdinOnce": True,
                "tty": True,
                "terminationMessagePath": "/t",
                "terminationMessagePolicy": "FallbackToLogsOnError",
            },
        ),
        _of_pod(
            "env value",
            {
                "enableServiceLinks": False,
                "containers": [
                    {"name": "main", "image": IMAGE, "env": [{"name": "A", "value": "1"}]}
                ],
            },
            {
                ("spec", "containers", 0, "env", -1): {"name": "A", "value": "1"},
                ("spec", "containers", 0, "envFrom"): [
                    {"configMapRef": {"name": names.API_VARIABLES}}
                ],
            },
        ),
        _of_container(
            "env valueFrom fieldRef",
            _reading("metadata.namespace")["containers"][0],
            {
                (
                    "env",
                    -1,
                    "valueFrom",
                    "fieldRef",
                    "fieldPath",
                ): f"metadata.annotations['{wellknown.NAMESPACE}']"
            },
        ),
        _of_container(
            "env valueFrom secretKeyRef, configMapKeyRef, envFrom",
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": ca}}]},
            {("env", -1, "valueFrom", "configMapKeyRef", "name"): names.SUPER_ROOT_CA},
        ),
        _of_container("env fileKeyRef, resourceFieldRef", {"env": [limit]}, {("env", -1): limit}),
        _of_container(
            "ports.containerPort",
            {"ports": [{"containerPort": 80, "protocol": "UDP", "name": "n"}]},
        ),
        _of_container(
            "resources requests, limits",
            {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}},
        ),
        _of_container(
            "resizePolicy, restartPolicy, restartPolicyRules",
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            {("resizePolicy", 0, "restartPolicy"): "RestartContainer"},
        ),
        _of_container(
            "allowPrivilegeEscalation, runAs*, readOnlyRootFilesystem, fsGroup*,"
            " supplementalGroups*",
            {
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "runAsGroup": 7,
                    "runAsNonRoot": True,
                    "runAsUser": 7,
                }
            },
        ),
        _of_pod(
            "containers, initContainers, ephemeralContainers",
            {"initContainers": [{"name": "first", "image": IMAGE}]},
            {("spec", "initContainers", 0, "name"): "first"},
        ),
        _of_pod(
            "volumeMounts.subPath, subPathExpr",
            {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "env": [{"name": "A", "value": "x"}],
                        "volumeMounts": [
                            {"name": "v", "mountPath": "/a", "subPath": "s"},
                            {"name": "v", "mountPath": "/b", "subPathExpr": "$(A)"},
                        ],
                    }
                ],
            },
            {
                ("spec", "containers", 0, "volumeMounts", 0, "subPath"): "s",
                ("spec", "containers", 0, "volumeMounts", 1, "subPathExpr"): "$(A)",
            },
        ),
        _of_pod(
            "volumeDevices",
            _DEVICE,
            {("spec", "containers", 0, "volumeDevices", 0, "devicePath"): "/dev/xvda"},
        ),
    )


def _on_pods() -> tuple[RewrittenObject, ...]:
    affinity = ("spec", "affinity", "podAffinity", _REQUIRED, 0)
    return (
        _same("hostUsers", {"hostUsers": False}),
        _same("shareProcessNamespace", {"shareProcessNamespace": True}),
        _same("imagePullSecrets", {"imagePullSecrets": [{"name": "absent"}]}),
        _same(
            "restartPolicy, activeDeadlineSeconds",
            {"restartPolicy": "OnFailure", "activeDeadlineSeconds": 600},
        ),
        _same("hostname, setHostnameAsFQDN", {"hostname": "other"}),
        _same("subdomain", {"hostname": "h", "subdomain": "s"}),
        _same("hostAliases", {"hostAliases": [{"ip": "192.0.2.9", "hostnames": ["a.example"]}]}),
        _same(
            "allowPrivilegeEscalation, runAs*, readOnlyRootFilesystem, fsGroup*,"
            " supplementalGroups*",
            {"securityContext": {"fsGroup": 7, "runAsUser": 7, "supplementalGroups": [8]}},
        ),
        _same("topologySpreadConstraints", {"topologySpreadConstraints": [_SPREAD]}),
        _of_pod(
            "serviceAccountName, serviceAccount",
            {"serviceAccountName": "default"},
            {
                ("spec", "serviceAccountName"): names.WORKLOAD_ACCOUNT,
                ("spec", "serviceAccount"): names.WORKLOAD_ACCOUNT,
            },
        ),
        _of_pod(
            "automountServiceAccountToken",
            {"automountServiceAccountToken": True},
            {("spec", "automountServiceAccountToken"): False},
        ),
        _of_pod(
            "podAffinity, podAntiAffinity",
            {"affinity": {"podAffinity": {_REQUIRED: [_TERM]}}},
            {
                (*affinity, "labelSelector", "matchLabels"): {"app": "x", wellknown.VC_UID: "@vc"},
                (*affinity, "namespaces"): ["@super"],
                (*affinity, "namespaceSelector"): MISSING,
            },
        ),
        _of_pod(
            "tolerations",
            {"tolerations": [_TOLERATED, {"key": "example.com/gpu", "operator": "Exists"}]},
            {
                ("spec", "tolerations", 0): _TOLERATED,
                ("spec", "tolerations", 1, "key"): "node.kubernetes.io/not-ready",
            },
            told="toleration",
        ),
        _of_pod(
            "priorityClassName, priority, preemptionPolicy",
            {"priorityClassName": OWN_CLASS},
            {("spec", "priorityClassName"): MISSING, ("spec", "priority"): 0},
        ),
        _of_pod(
            "schedulerName",
            {"schedulerName": "own"},
            {("spec", "schedulerName"): "default-scheduler"},
        ),
        _of_pod("overhead", {"runtimeClassName": CLASS}, {("spec", "overhead"): {"cpu": "1m"}}),
        _of_pod(
            "terminationGracePeriodSeconds",
            {"terminationGracePeriodSeconds": 7200},
            {("spec", "terminationGracePeriodSeconds"): builtin_policy.MAX_GRACE_SECONDS},
            told="grace",
        ),
        _of_pod(
            "dnsPolicy, dnsConfig",
            {"dnsConfig": {"nameservers": ["192.0.2.53"]}},
            {
                ("spec", "dnsPolicy"): "None",
                ("spec", "dnsConfig", "nameservers"): ["@dns", "192.0.2.53"],
            },
        ),
        _of_pod(
            "workload and gang references, other new leaves",
            {"schedulingGroup": {"podGroupName": "g"}},
            {("spec", "schedulingGroup"): MISSING},
            told="scheduling-group",
        ),
        _of_pod(
            "enableServiceLinks",
            {"enableServiceLinks": True},
            {("spec", "enableServiceLinks"): False},
        ),
        _of_pod(
            "volumes: configMap, secret, downwardAPI, emptyDir, persistentVolumeClaim, ephemeral",
            {"volumes": _VOLUMES},
            {
                **{("spec", "volumes", n): volume for n, volume in enumerate(_VOLUMES)},
            },
        ),
        _of_pod(
            "volumes: projected",
            {
                "volumes": [
                    {
                        "name": "t",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]},
                    }
                ]
            },
            {
                ("spec", "volumes", 0, "projected", "sources", 0, "secret", "items"): [
                    {"key": "token", "path": "t"}
                ],
                ("spec", "volumes", 0, "projected", "sources", 0, "serviceAccountToken"): MISSING,
            },
        ),
    )


_AFFINE: Object = {
    "type": "LoadBalancer",
    "externalTrafficPolicy": "Local",
    "internalTrafficPolicy": "Local",
    "sessionAffinity": "ClientIP",
    "publishNotReadyAddresses": True,
    "allocateLoadBalancerNodePorts": False,
}


def _on_others() -> tuple[RewrittenObject, ...]:
    port = {"name": "w", "port": 80, "targetPort": 8080, "protocol": "UDP", "appProtocol": "x"}

    def of_service(
        row: str, spec: Object, has: Mapping[FieldPath, Any] | None = None
    ) -> RewrittenObject:
        body = of_spec({"ports": [port], **spec})
        wanted = {(key,): value for key, value in spec.items()} if has is None else has
        return RewrittenObject(
            row=f"2b {row}",
            resource=SERVICES,
            body=body,
            has={("spec", *place): value for place, value in wanted.items()},
        )

    return (
        of_service("ports", {}, {("ports", 0): port}),
        of_service("selector", {"selector": {"app": "x"}}),
        of_service(
            "selector",
            {"selector": {"app": "x", _STRANGE: "true"}},
            {("selector",): {"app": "x", _TRANSLATED: "true"}, ("selector", _STRANGE): MISSING},
        ),
        RewrittenObject(
            row="2b annotations",
            resource=SERVICES,
            body=of_spec({"ports": [port]}, annotations={"note": "x", _INTERNAL: "true"}),
            has={
                ("metadata", "annotations", "note"): "x",
                ("metadata", "annotations", _INTERNAL): MISSING,
            },
            told="annotation",
        ),
        of_service("Service type ClusterIP, headless", {"clusterIP": "None"}),
        of_service(
            "externalTrafficPolicy, internalTrafficPolicy, sessionAffinity*,"
            " publishNotReadyAddresses",
            _AFFINE,
        ),
        of_service(
            "healthCheckNodePort, allocateLoadBalancerNodePorts",
            {**_AFFINE, "healthCheckNodePort": 32_101},
            {("healthCheckNodePort",): "@another", ("allocateLoadBalancerNodePorts",): False},
        ),
        RewrittenObject(
            row="2c PVC accessModes, resources, volumeMode",
            resource=PERSISTENT_VOLUME_CLAIMS,
            body=of_spec({**_CLAIM, "volumeMode": "Block", "storageClassName": CLASS}),
            has={
                ("spec", "accessModes"): ["ReadWriteOnce"],
                ("spec", "volumeMode"): "Block",
                ("spec", "storageClassName"): CLASS,
            },
        ),
        RewrittenObject(
            row="2c PVC volumeName, selector, binder annotations",
            resource=PERSISTENT_VOLUME_CLAIMS,
            body=of_spec(
                {**_CLAIM, "storageClassName": CLASS},
                annotations={"volume.kubernetes.io/selected-node": "n"},
            ),
            has={("metadata", "annotations", "volume.kubernetes.io/selected-node"): MISSING},
        ),
    )


_ALL = (*_on_metadata(), *_on_containers(), *_on_pods(), *_on_others())
REWRITES = tuple(replace(each, number=number) for number, each in enumerate(_ALL))
