"""For each leaf that a verdict table refuses: a value that is, and one beside it that is not.

Pure data and the few functions that put it together. A leaf without a row here fails the check of
completeness in `test_negative`. `tenant_api_refuses` marks a value that the tenant's API server
refuses itself. The table refuses it as well, because a store can hold such a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeio import Object

Fragment = Mapping[str, Any]
ADDRESS = "192.0.2.1"
NFS_SERVER = "nfs.example"
CSI_DRIVER = "csi.example"
NFS: Fragment = {"nfs": {"server": NFS_SERVER, "path": "/"}}
CSI: Fragment = {"csi": {"driver": CSI_DRIVER, "volumeHandle": "h"}}


@dataclass(frozen=True, kw_only=True)
class RefusedValue:
    """One refused value and its neighbour."""

    row: str
    """The row of the policy that it belongs to."""
    bad: Fragment
    good: Fragment = field(default_factory=dict)
    spec: Fragment = field(default_factory=dict)
    """What the pod's spec needs besides, so that the API server takes the refused value."""
    tenant_api_refuses: bool = False


def merged(*parts: Fragment) -> Object:
    """Return nested maps as one. What is no map is taken from the last part."""
    whole: Object = {}
    for part in parts:
        for key, value in part.items():
            before = whole.get(key)
            both = isinstance(before, dict) and isinstance(value, dict)
            whole[key] = merged(before, value) if both else value
    return whole


def nest(path: str, value: Any) -> Object:
    """Return maps in each other that end in a value."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


HANDLERS = (
    "lifecycle.postStart",
    "lifecycle.preStop",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)
_PRIVILEGED = "2a securityContext.privileged true, procMount not Default, hostProcess"
_PROFILES = "2a seccompProfile, appArmorProfile"
_SELINUX = "2a seLinuxOptions"
_CLAIMS = "2a resources.claims, spec.resourceClaims"
_SOURCES = "2a volumes: nfs, iscsi, fc, rbd, ceph, gluster, cloud disks, flex, gitRepo, others"
_TENANT_VOLUMES = "2c PV"
_GPU: Fragment = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
_EMPTY: Fragment = {"volumes": [{"name": "v", "emptyDir": {}}]}
_LOCAL_PROFILE: Fragment = {"type": "Localhost", "localhostProfile": "p"}
_DEFAULT_PROFILE: Fragment = {"type": "RuntimeDefault"}


def _handlers() -> Iterator[tuple[str, RefusedValue]]:
    for handler in HANDLERS:
        for way in ("httpGet", "tcpSocket"):
            yield (
                f"{handler}.{way}.host",
                RefusedValue(
                    row="2a probes and lifecycle handlers",
                    bad=nest(f"{handler}.{way}", {"port": 80, "host": ADDRESS}),
                    good=nest(f"{handler}.{way}", {"port": 80}),
                ),
            )


def _security(at: str) -> Iterator[tuple[str, RefusedValue]]:
    """Yield what a pod's and a container's security context have in common."""
    for profile in ("appArmorProfile", "seccompProfile"):
        good = nest(f"{at}{profile}", _DEFAULT_PROFILE)
        for leaf, value in (("type", {"type": "Unconfined"}), ("localhostProfile", _LOCAL_PROFILE)):
            bad = nest(f"{at}{profile}", value)
            yield f"{at}{profile}.{leaf}", RefusedValue(row=_PROFILES, bad=bad, good=good)
    for leaf, good in (
        ("role", {"level": "s0:c1,c2"}),
        ("type", {"type": "container_t"}),
        ("user", {}),
    ):
        yield (
            f"{at}seLinuxOptions.{leaf}",
            RefusedValue(
                row=_SELINUX,
                bad=nest(f"{at}seLinuxOptions.{leaf}", "spc_t"),
                good=nest(f"{at}seLinuxOptions", good),
            ),
        )
    windows = nest(f"{at}windowsOptions.runAsUserName", "u")
    yield f"{at}windowsOptions", RefusedValue(row=_PRIVILEGED, bad=windows)


CONTAINER: Mapping[str, RefusedValue] = {
    **dict(_handlers()),
    **dict(_security("securityContext.")),
    "ports[].hostIP": RefusedValue(
        row="2a ports.hostPort, hostIP",
        bad={"ports": [{"containerPort": 80, "hostIP": ADDRESS}]},
        good={"ports": [{"containerPort": 80}]},
    ),
    "ports[].hostPort": RefusedValue(
        row="2a ports.hostPort, hostIP",
        bad={"ports": [{"containerPort": 80, "hostPort": 8080}]},
        good={"ports": [{"containerPort": 80}]},
    ),
    "resources.claims": RefusedValue(
        row=_CLAIMS,
        bad={"resources": {"claims": [{"name": "gpu"}]}},
        good={"resources": {"requests": {"cpu": "1m"}}},
        spec=_GPU,
    ),
    "securityContext.capabilities.add": RefusedValue(
        row="2a capabilities.add outside the baseline list",
        bad={"securityContext": {"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}},
        good={"securityContext": {"capabilities": {"add": ["CHOWN"]}}},
    ),
    "securityContext.privileged": RefusedValue(
        row=_PRIVILEGED,
        bad={"securityContext": {"privileged": True}},
        good={"securityContext": {"privileged": False}},
    ),
    "securityContext.procMount": RefusedValue(
        row=_PRIVILEGED,
        bad={"securityContext": {"procMount": "Unmasked"}},
        good={"securityContext": {"procMount": "Default"}},
        spec={"hostUsers": False},
    ),
    "volumeMounts[].mountPropagation": RefusedValue(
        row="2a volumeMounts.mountPropagation",
        bad={
            "securityContext": {"privileged": True},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}],
        },
        good={
            "volumeMounts": [
                {"name": "v", "mountPath": "/v", "mountPropagation": "HostToContainer"}
            ]
        },
        spec=_EMPTY,
    ),
}
"""By leaf of a container. Each is tried in containers, init and ephemeral containers."""

NOT_IN_EPHEMERAL = (*HANDLERS, "ports", "resources")
"""What the API takes in no ephemeral container."""


def _volume(source: Fragment) -> Fragment:
    return {"volumes": [{"name": "v", **source}]}


POD_SOURCES: Mapping[str, Object] = {
    "awsElasticBlockStore": {"volumeID": "v"},
    "azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s", "kind": "Managed"},
    "azureFile": {"secretName": "s", "shareName": "s"},
    "cephfs": {"monitors": ["m:1"]},
    "cinder": {"volumeID": "v"},
    "csi": {"driver": CSI_DRIVER},
    "fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0},
    "flexVolume": {"driver": "example/driver"},
    "flocker": {"datasetName": "d"},
    "gcePersistentDisk": {"pdName": "d"},
    "gitRepo": {"repository": "https://git.example/r"},
    "glusterfs": {"endpoints": "e", "path": "p"},
    "hostPath": {"path": "/"},
    "image": {"reference": "registry.example/data:1", "pullPolicy": "IfNotPresent"},
    "iscsi": {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2001-04.com.example:s", "lun": 0},
    "nfs": {"server": NFS_SERVER, "path": "/"},
    "photonPersistentDisk": {"pdID": "p"},
    "portworxVolume": {"volumeID": "v"},
    "quobyte": {"registry": "q.example:1", "volume": "v"},
    "rbd": {"monitors": ["m:1"], "image": "i"},
    "scaleIO": {
        "gateway": "https://g.example",
        "system": "s",
        "volumeName": "v",
        "secretRef": {"name": "s"},
    },
    "storageos": {"volumeName": "v"},
    "vsphereVolume": {"volumePath": "[d] v"},
}
_ROW_OF_SOURCE = {
    "hostPath": "2a volumes: hostPath",
    "image": "2a volumes: image",
    "csi": "2a volumes: csi inline",
}
_TRUST_BUNDLE: Object = {"clusterTrustBundle": {"name": "b", "path": "p"}}
_CERTIFICATE: Object = {
    "podCertificate": {
        "signerName": "signer.example/x",
        "keyType": "ED25519",
        "credentialBundlePath": "p",
    }
}


def _projected(source: Object) -> Fragment:
    return _volume({"projected": {"sources": [source]}})


def _pod_leaves() -> Iterator[tuple[str, RefusedValue]]:
    for name, value in POD_SOURCES.items():
        row = _ROW_OF_SOURCE.get(name, _SOURCES)
        yield f"volumes[].{name}", RefusedValue(row=row, bad=_volume({name: value}), good=_EMPTY)
    yield from _security("securityContext.")
    for name in ("hostIPC", "hostNetwork", "hostPID"):
        yield (
            name,
            RefusedValue(
                row="2a hostNetwork, hostPID, hostIPC", bad={name: True}, good={name: False}
            ),
        )
    for name, source in (("clusterTrustBundle", _TRUST_BUNDLE), ("podCertificate", _CERTIFICATE)):
        yield (
            f"volumes[].projected.sources[].{name}",
            RefusedValue(
                row="2a volumes: projected",
                bad=_projected(source),
                good=_projected({"configMap": {"name": "absent", "optional": True}}),
            ),
        )


POD: Mapping[str, RefusedValue] = {
    **dict(_pod_leaves()),
    "os.name": RefusedValue(
        row="2a os", bad={"os": {"name": "windows"}}, good={"os": {"name": "linux"}}
    ),
    "resourceClaims": RefusedValue(row=_CLAIMS, bad=_GPU),
    "resources.claims": RefusedValue(
        row=_CLAIMS,
        bad=merged(_GPU, {"resources": {"claims": [{"name": "gpu"}]}}),
        good={"resources": {"requests": {"cpu": "1m"}}},
        tenant_api_refuses=True,
    ),
    "securityContext.sysctls[].name": RefusedValue(
        row="2a sysctls",
        bad={"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        good={"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}},
    ),
}
"""By leaf of a pod's spec, containers apart."""

_HOST = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}
_AFFINITY: Object = {"nodeAffinity": {"required": {"nodeSelectorTerms": [_HOST]}}}
_SECRET_REF: Object = {"name": "s", "namespace": "kube-system"}
_ONLY_IN_PODS = ("csi", "gitRepo", "image", "nfs")
_PV_EXTRAS: Mapping[str, Object] = {
    "azureFile": {"secretNamespace": "default"},
    "flexVolume": {},
}


def _volume_leaves() -> Iterator[tuple[str, RefusedValue]]:
    def refused(bad: Fragment, good: Fragment = NFS) -> RefusedValue:
        return RefusedValue(row=_TENANT_VOLUMES, bad=bad, good=good)

    for name, value in POD_SOURCES.items():
        if name not in _ONLY_IN_PODS:
            yield name, refused({name: {**value, **_PV_EXTRAS.get(name, {})}})
    yield "local", refused({"local": {"path": "/disk"}, **_AFFINITY})
    for name in ("controllerExpand", "controllerPublish", "nodeExpand", "nodePublish", "nodeStage"):
        ref = f"{name}SecretRef"
        yield f"csi.{ref}", refused(merged(CSI, {"csi": {ref: _SECRET_REF}}), CSI)
    yield "csi.driver", refused(merged(CSI, {"csi": {"driver": "other.example"}}), CSI)
    yield "nfs.server", refused(merged(NFS, {"nfs": {"server": "other.example"}}))
    yield (
        "mountOptions",
        refused({**NFS, "mountOptions": ["suid"]}, {**NFS, "mountOptions": ["hard"]}),
    )
    yield "nodeAffinity", refused({**NFS, **_AFFINITY})
    yield "volumeAttributesClassName", refused({**CSI, "volumeAttributesClassName": "gold"}, CSI)


VOLUME: Mapping[str, RefusedValue] = dict(_volume_leaves())
"""By leaf of a PersistentVolume's spec, where this server and this driver are offered."""
