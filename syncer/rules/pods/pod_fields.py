"""Verdicts on every leaf of a PodSpec, as data that is compared with the API's schema.

A super pod is built from the leaves that this table allows, never copied and reduced. Must not
rewrite anything: `Written` names the module that does. A field that is missing here rejects the
pod.
"""

from syncer.model import builtin_policy
from syncer.model.field_rules import ALLOW, FREE, Drop, Each, Fields, Only, Refuse, Written
from syncer.rules.pods.container_fields import (
    CLAIMS,
    CONTAINER,
    FIELD_REF,
    RESOURCE_REF,
    RESOURCES,
    SECCOMP,
    SELINUX,
    WINDOWS,
    Table,
)

_SELECTOR = Fields(
    {
        "matchLabels": FREE,
        "matchExpressions": Each({"key": ALLOW, "operator": ALLOW, "values": ALLOW}),
    }
)
_NODE_EXPRESSIONS = Each({"key": ALLOW, "operator": ALLOW, "values": ALLOW})
_NODE_TERM: Table = {"matchExpressions": _NODE_EXPRESSIONS, "matchFields": _NODE_EXPRESSIONS}
_POD_TERM: Table = {
    "labelSelector": _SELECTOR,
    "matchLabelKeys": ALLOW,
    "mismatchLabelKeys": ALLOW,
    "namespaceSelector": _SELECTOR,
    "namespaces": ALLOW,
    "topologyKey": ALLOW,
}
_POD_AFFINITY = Fields(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": Each(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": Each(
            {"weight": ALLOW, "podAffinityTerm": Fields(_POD_TERM)}
        ),
    }
)
_AFFINITY = Fields(
    {
        "nodeAffinity": Fields(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": Fields(
                    {"nodeSelectorTerms": Each(_NODE_TERM)}
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": Each(
                    {"weight": ALLOW, "preference": Fields(_NODE_TERM)}
                ),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)

_KEYS = Each({"key": ALLOW, "mode": ALLOW, "path": ALLOW})
_DOWNWARD_ITEMS = Each(
    {"fieldRef": FIELD_REF, "mode": ALLOW, "path": ALLOW, "resourceFieldRef": RESOURCE_REF}
)


def _no_volume(what: str) -> Refuse:
    return Refuse("volume-source", f"{what}; use a claim, configMap, secret, projected or emptyDir")


_REMOTE = _no_volume("is not offered")
_VOLUME: Table = {
    "name": ALLOW,
    "configMap": Fields({"defaultMode": ALLOW, "items": _KEYS, "name": ALLOW, "optional": ALLOW}),
    "downwardAPI": Fields({"defaultMode": ALLOW, "items": _DOWNWARD_ITEMS}),
    "emptyDir": Fields({"medium": ALLOW, "sizeLimit": ALLOW}),
    "projected": Fields(
        {
            "defaultMode": ALLOW,
            "sources": Each(
                {
                    "clusterTrustBundle": Refuse(
                        "projected-source", "would show the nodes' bundles; use a configMap"
                    ),
                    "configMap": Fields({"items": _KEYS, "name": ALLOW, "optional": ALLOW}),
                    "downwardAPI": Fields({"items": _DOWNWARD_ITEMS}),
                    "podCertificate": Refuse(
                        "projected-source", "is not offered; issue a certificate into a secret"
                    ),
                    "secret": Fields({"items": _KEYS, "name": ALLOW, "optional": ALLOW}),
                    "serviceAccountToken": Fields(
                        {"audience": ALLOW, "expirationSeconds": ALLOW, "path": ALLOW}
                    ),
                }
            ),
        }
    ),
    "secret": Fields(
        {"defaultMode": ALLOW, "items": _KEYS, "optional": ALLOW, "secretName": ALLOW}
    ),
    "ephemeral": Written(
        "pod_build", "names the claim that your cluster creates for it, which is synced separately"
    ),
    "persistentVolumeClaim": Fields({"claimName": ALLOW, "readOnly": ALLOW}),
    "hostPath": _no_volume("would open the node's files"),
    "image": _no_volume("is not offered"),
    "csi": _no_volume("needs a driver of the nodes"),
    "flexVolume": _no_volume("needs a driver of the nodes"),
    "awsElasticBlockStore": _REMOTE,
    "azureDisk": _REMOTE,
    "azureFile": _REMOTE,
    "cephfs": _REMOTE,
    "cinder": _REMOTE,
    "fc": _REMOTE,
    "flocker": _REMOTE,
    "gcePersistentDisk": _REMOTE,
    "gitRepo": _REMOTE,
    "glusterfs": _REMOTE,
    "iscsi": _REMOTE,
    "nfs": _REMOTE,
    "photonPersistentDisk": _REMOTE,
    "portworxVolume": _REMOTE,
    "quobyte": _REMOTE,
    "rbd": _REMOTE,
    "scaleIO": _REMOTE,
    "storageos": _REMOTE,
    "vsphereVolume": _REMOTE,
}

_HOST_NAMESPACE = Refuse("host-namespace", "must not be true; run in namespaces of the pod's own")
_GROUP = Written(
    "scheduling",
    "is ignored, with an Event, because groups are not offered. The pod is scheduled alone",
)

POD_SPEC: Table = {
    "activeDeadlineSeconds": ALLOW,
    "affinity": _AFFINITY,
    "automountServiceAccountToken": Written(
        "pod_build",
        "has taken effect in your cluster. The volume that it added gets your cluster's token",
    ),
    "containers": Each(CONTAINER),
    "dnsConfig": Written(
        "dns", "is added to the settings that make the pod use your cluster's DNS"
    ),
    "dnsPolicy": Written("dns", "takes effect. The cluster's DNS is the DNS of your cluster"),
    "enableServiceLinks": Written("environment", "takes effect with your cluster's services"),
    "ephemeralContainers": Written(
        "ephemeral_containers", "are added to the running pod, by the table below"
    ),
    "hostAliases": Each({"hostnames": ALLOW, "ip": ALLOW}),
    "hostIPC": _HOST_NAMESPACE,
    "hostNetwork": _HOST_NAMESPACE,
    "hostPID": _HOST_NAMESPACE,
    "hostUsers": ALLOW,
    "hostname": ALLOW,
    "hostnameOverride": ALLOW,
    "imagePullSecrets": Each({"name": ALLOW}),
    "initContainers": Each(CONTAINER),
    "nodeName": Written(
        "scheduling",
        "must be a node that your cluster shows. The pod runs on that node, or fails if the node"
        " has no room or no free port for it",
    ),
    "nodeSelector": FREE,
    "os": Fields({"name": Only(frozenset({"linux"}), "os", "use linux, or leave it out")}),
    "overhead": Drop("the super cluster's admission sets it"),
    "preemptionPolicy": Drop("is set by the class that the super cluster chooses"),
    "priority": Drop("is set by the class that the super cluster chooses"),
    "priorityClassName": Written(
        "scheduling",
        "is synced if your cluster shows it as offered. Any other class orders pods in your cluster"
        " only. The system classes are refused",
    ),
    "readinessGates": Each({"conditionType": ALLOW}),
    "resourceClaims": CLAIMS,
    "resources": RESOURCES,
    "restartPolicy": ALLOW,
    "runtimeClassName": Written("scheduling", "must be a class that your cluster shows as offered"),
    "schedulerName": Drop("the super cluster's scheduler places the pod"),
    "schedulingGates": Written("pod_facts", "hold the pod in your cluster until all are removed"),
    "schedulingGroup": _GROUP,
    "securityContext": Fields(
        {
            "appArmorProfile": SECCOMP,
            "fsGroup": ALLOW,
            "fsGroupChangePolicy": ALLOW,
            "runAsGroup": ALLOW,
            "runAsNonRoot": ALLOW,
            "runAsUser": ALLOW,
            "seLinuxChangePolicy": ALLOW,
            "seLinuxOptions": SELINUX,
            "seccompProfile": SECCOMP,
            "supplementalGroups": ALLOW,
            "supplementalGroupsPolicy": ALLOW,
            "sysctls": Each(
                {
                    "name": Only(builtin_policy.SYSCTLS, "sysctls", "use only the safe ones"),
                    "value": ALLOW,
                }
            ),
            "windowsOptions": WINDOWS,
        }
    ),
    "serviceAccount": Drop("the older spelling of serviceAccountName"),
    "serviceAccountName": Written(
        "pod_build", "names the account of your cluster. The pod gets a token of that account"
    ),
    "setHostnameAsFQDN": Written(
        "dns", "gives the pod its name in your cluster's domain as host name"
    ),
    "shareProcessNamespace": ALLOW,
    "subdomain": ALLOW,
    "terminationGracePeriodSeconds": Written(
        "pod_build", "takes effect up to the longest period that is offered"
    ),
    "tolerations": Each(
        {
            "effect": ALLOW,
            "key": ALLOW,
            "operator": ALLOW,
            "tolerationSeconds": ALLOW,
            "value": ALLOW,
        }
    ),
    "topologySpreadConstraints": Each(
        {
            "labelSelector": _SELECTOR,
            "matchLabelKeys": ALLOW,
            "maxSkew": ALLOW,
            "minDomains": ALLOW,
            "nodeAffinityPolicy": ALLOW,
            "nodeTaintsPolicy": ALLOW,
            "topologyKey": ALLOW,
            "whenUnsatisfiable": ALLOW,
        }
    ),
    "volumes": Each(_VOLUME),
    "workloadRef": _GROUP,  # Kubernetes 1.35, later schedulingGroup
}
