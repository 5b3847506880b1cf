"""Verdicts on every leaf of a PodSpec, as data that is compared with the API's schema.

A super pod is built from the leaves that this table allows, never copied and reduced. Must not
rewrite anything: `Written` names the module that does. A field that is missing here rejects the
pod.
"""

from syncer.model import builtin_policy
from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    AllowValues,
    BuiltField,
    DropField,
    ListOfObjects,
    ObjectFields,
    RefuseField,
)
from syncer.rules.pods.container_fields import (
    CLAIMS_RULE,
    CONTAINER,
    FIELD_REF,
    RESOURCE_REF,
    RESOURCES_RULE,
    SECCOMP,
    SELINUX,
    WINDOWS,
    FieldRules,
)

_SELECTOR = ObjectFields(
    {
        "matchLabels": ALLOW_MAP,
        "matchExpressions": ListOfObjects(
            {"key": ALLOW_SCALAR, "operator": ALLOW_SCALAR, "values": ALLOW_SCALAR}
        ),
    }
)
_NODE_EXPRESSIONS = ListOfObjects(
    {"key": ALLOW_SCALAR, "operator": ALLOW_SCALAR, "values": ALLOW_SCALAR}
)
_NODE_TERM: FieldRules = {"matchExpressions": _NODE_EXPRESSIONS, "matchFields": _NODE_EXPRESSIONS}
_POD_TERM: FieldRules = {
    "labelSelector": _SELECTOR,
    "matchLabelKeys": ALLOW_SCALAR,
    "mismatchLabelKeys": ALLOW_SCALAR,
    "namespaceSelector": _SELECTOR,
    "namespaces": ALLOW_SCALAR,
    "topologyKey": ALLOW_SCALAR,
}
_POD_AFFINITY = ObjectFields(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": ListOfObjects(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": ListOfObjects(
            {"weight": ALLOW_SCALAR, "podAffinityTerm": ObjectFields(_POD_TERM)}
        ),
    }
)
_AFFINITY = ObjectFields(
    {
        "nodeAffinity": ObjectFields(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": ObjectFields(
                    {"nodeSelectorTerms": ListOfObjects(_NODE_TERM)}
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": ListOfObjects(
                    {"weight": ALLOW_SCALAR, "preference": ObjectFields(_NODE_TERM)}
                ),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)

# `user` is the owner of a file, and the API keeps `mode` of a file at 0777 or less. So no file can
# be set-user-ID, and a pod with the owner's UID could own the file as well.
_KEY_ITEMS = ListOfObjects(
    {
        "key": ALLOW_SCALAR,
        "mode": ALLOW_SCALAR,
        "path": ALLOW_SCALAR,
        "user": ALLOW_SCALAR,
    }
)
_DOWNWARD_ITEMS = ListOfObjects(
    {
        "fieldRef": FIELD_REF,
        "mode": ALLOW_SCALAR,
        "path": ALLOW_SCALAR,
        "resourceFieldRef": RESOURCE_REF,
        "user": ALLOW_SCALAR,
    }
)


def _build_volume_refusal(what: str) -> RefuseField:
    return RefuseField(
        "volume-source", f"{what}. Use a claim, configMap, secret, projected or emptyDir"
    )


_REMOTE_VOLUME = _build_volume_refusal("is not offered")
_VOLUME: FieldRules = {
    "name": ALLOW_SCALAR,
    "configMap": ObjectFields(
        {
            "defaultMode": ALLOW_SCALAR,
            "defaultUser": ALLOW_SCALAR,
            "items": _KEY_ITEMS,
            "name": ALLOW_SCALAR,
            "optional": ALLOW_SCALAR,
        }
    ),
    "downwardAPI": ObjectFields(
        {"defaultMode": ALLOW_SCALAR, "defaultUser": ALLOW_SCALAR, "items": _DOWNWARD_ITEMS}
    ),
    "emptyDir": ObjectFields(
        {"medium": ALLOW_SCALAR, "mode": ALLOW_SCALAR, "sizeLimit": ALLOW_SCALAR}
    ),
    "projected": ObjectFields(
        {
            "defaultMode": ALLOW_SCALAR,
            "defaultUser": ALLOW_SCALAR,
            "sources": ListOfObjects(
                {
                    "clusterTrustBundle": RefuseField(
                        "projected-source", "would show the nodes' bundles. Use a configMap"
                    ),
                    "configMap": ObjectFields(
                        {"items": _KEY_ITEMS, "name": ALLOW_SCALAR, "optional": ALLOW_SCALAR}
                    ),
                    "downwardAPI": ObjectFields({"items": _DOWNWARD_ITEMS}),
                    "podCertificate": RefuseField(
                        "projected-source", "is not offered. Issue a certificate into a secret"
                    ),
                    "secret": ObjectFields(
                        {"items": _KEY_ITEMS, "name": ALLOW_SCALAR, "optional": ALLOW_SCALAR}
                    ),
                    "serviceAccountToken": ObjectFields(
                        {
                            "audience": ALLOW_SCALAR,
                            "expirationSeconds": ALLOW_SCALAR,
                            "path": ALLOW_SCALAR,
                            "user": ALLOW_SCALAR,
                        }
                    ),
                }
            ),
        }
    ),
    "secret": ObjectFields(
        {
            "defaultMode": ALLOW_SCALAR,
            "defaultUser": ALLOW_SCALAR,
            "items": _KEY_ITEMS,
            "optional": ALLOW_SCALAR,
            "secretName": ALLOW_SCALAR,
        }
    ),
    "ephemeral": BuiltField(
        "pod_build", "names the claim that your cluster creates for it, which is synced separately"
    ),
    "persistentVolumeClaim": ObjectFields({"claimName": ALLOW_SCALAR, "readOnly": ALLOW_SCALAR}),
    "hostPath": _build_volume_refusal("would open the node's files"),
    "image": _build_volume_refusal("is not offered"),
    "csi": _build_volume_refusal("needs a driver of the nodes"),
    "flexVolume": _build_volume_refusal("needs a driver of the nodes"),
    "awsElasticBlockStore": _REMOTE_VOLUME,
    "azureDisk": _REMOTE_VOLUME,
    "azureFile": _REMOTE_VOLUME,
    "cephfs": _REMOTE_VOLUME,
    "cinder": _REMOTE_VOLUME,
    "fc": _REMOTE_VOLUME,
    "flocker": _REMOTE_VOLUME,
    "gcePersistentDisk": _REMOTE_VOLUME,
    "gitRepo": _REMOTE_VOLUME,
    "glusterfs": _REMOTE_VOLUME,
    "iscsi": _REMOTE_VOLUME,
    "nfs": _REMOTE_VOLUME,
    "photonPersistentDisk": _REMOTE_VOLUME,
    "portworxVolume": _REMOTE_VOLUME,
    "quobyte": _REMOTE_VOLUME,
    "rbd": _REMOTE_VOLUME,
    "scaleIO": _REMOTE_VOLUME,
    "storageos": _REMOTE_VOLUME,
    "vsphereVolume": _REMOTE_VOLUME,
}

_HOST_NAMESPACE = RefuseField("host-namespace", "must not be true. Use the pod's own namespaces")
_SCHEDULING_GROUP = BuiltField(
    "scheduling",
    "is ignored, with an Event, because groups are not offered. The pod is scheduled alone",
)

POD_SPEC: FieldRules = {
    "activeDeadlineSeconds": ALLOW_SCALAR,
    "affinity": _AFFINITY,
    "automountServiceAccountToken": BuiltField(
        "pod_build",
        "has taken effect in your cluster. The volume that it added gets your cluster's token",
    ),
    "containers": ListOfObjects(CONTAINER),
    "dnsConfig": BuiltField(
        "dns", "is added to the settings that make the pod use your cluster's DNS"
    ),
    "dnsPolicy": BuiltField("dns", "takes effect. The cluster's DNS is the DNS of your cluster"),
    "enableServiceLinks": BuiltField(
        "environment",
        "takes effect with your cluster's services, below `envFrom` and `env`, at each start",
    ),
    "ephemeralContainers": BuiltField(
        "ephemeral_containers", "are added to the running pod, by the table below"
    ),
    "evictionResponders": BuiltField(
        "scheduling",
        "take effect for evictions in your cluster. They are left out of the running pod, with an"
        " Event, because a drain of a node does not wait for them",
    ),
    "hostAliases": ListOfObjects({"hostnames": ALLOW_SCALAR, "ip": ALLOW_SCALAR}),
    "hostIPC": _HOST_NAMESPACE,
    "hostNetwork": _HOST_NAMESPACE,
    "hostPID": _HOST_NAMESPACE,
    "hostUsers": ALLOW_SCALAR,
    "hostname": ALLOW_SCALAR,
    "hostnameOverride": ALLOW_SCALAR,
    "imagePullSecrets": ListOfObjects({"name": ALLOW_SCALAR}),
    "initContainers": ListOfObjects(CONTAINER),
    "nodeName": BuiltField(
        "scheduling",
        "must be a node that your cluster shows. The pod runs on that node, or fails if the node"
        " has no room or no free port for it",
    ),
    "nodeSelector": ALLOW_MAP,
    "os": ObjectFields(
        {"name": AllowValues(frozenset({"linux"}), "os", "Use linux, or leave it out")}
    ),
    "overhead": DropField("the super cluster's admission sets it"),
    "preemptionPolicy": DropField("is set by the class that the super cluster chooses"),
    "priority": DropField("is set by the class that the super cluster chooses"),
    "priorityClassName": BuiltField(
        "scheduling",
        "is synced if your cluster shows it as offered. Any other class orders pods in your cluster"
        " only. The system classes are refused",
    ),
    "readinessGates": ListOfObjects({"conditionType": ALLOW_SCALAR}),
    "resourceClaims": CLAIMS_RULE,
    "resources": RESOURCES_RULE,
    "restartPolicy": ALLOW_SCALAR,
    "runtimeClassName": BuiltField(
        "scheduling", "must be a class that your cluster shows as offered"
    ),
    "schedulerName": DropField("the super cluster's scheduler places the pod"),
    "schedulingGates": BuiltField(
        "lifecycle", "hold the pod in your cluster until all are removed"
    ),
    "schedulingGroup": _SCHEDULING_GROUP,
    "securityContext": ObjectFields(
        {
            "appArmorProfile": SECCOMP,
            "fsGroup": ALLOW_SCALAR,
            "fsGroupChangePolicy": ALLOW_SCALAR,
            "runAsGroup": ALLOW_SCALAR,
            "runAsNonRoot": ALLOW_SCALAR,
            "runAsUser": ALLOW_SCALAR,
            "seLinuxChangePolicy": ALLOW_SCALAR,
            "seLinuxOptions": SELINUX,
            "seccompProfile": SECCOMP,
            "supplementalGroups": ALLOW_SCALAR,
            "supplementalGroupsPolicy": ALLOW_SCALAR,
            "sysctls": ListOfObjects(
                {
                    "name": AllowValues(
                        builtin_policy.SYSCTLS, "sysctls", "Use only the safe ones"
                    ),
                    "value": ALLOW_SCALAR,
                }
            ),
            "windowsOptions": WINDOWS,
        }
    ),
    "serviceAccount": DropField("the older spelling of serviceAccountName"),
    "serviceAccountName": BuiltField(
        "pod_build", "names the account of your cluster. The pod gets a token of that account"
    ),
    "setHostnameAsFQDN": BuiltField(
        "dns", "gives the pod its name in your cluster's domain as host name"
    ),
    "shareProcessNamespace": ALLOW_SCALAR,
    "subdomain": ALLOW_SCALAR,
    "terminationGracePeriodSeconds": BuiltField(
        "pod_build", "takes effect up to the longest period that is offered"
    ),
    "tolerations": ListOfObjects(
        {
            "effect": ALLOW_SCALAR,
            "key": ALLOW_SCALAR,
            "operator": ALLOW_SCALAR,
            "tolerationSeconds": ALLOW_SCALAR,
            "value": ALLOW_SCALAR,
        }
    ),
    "topologySpreadConstraints": ListOfObjects(
        {
            "labelSelector": _SELECTOR,
            "matchLabelKeys": ALLOW_SCALAR,
            "maxSkew": ALLOW_SCALAR,
            "minDomains": ALLOW_SCALAR,
            "nodeAffinityPolicy": ALLOW_SCALAR,
            "nodeTaintsPolicy": ALLOW_SCALAR,
            "topologyKey": ALLOW_SCALAR,
            "whenUnsatisfiable": ALLOW_SCALAR,
        }
    ),
    "volumes": ListOfObjects(_VOLUME),
    "workloadRef": _SCHEDULING_GROUP,  # Kubernetes 1.35, later schedulingGroup
}
