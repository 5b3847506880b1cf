"""The verdict on every leaf of a PodSpec: data, to be held against the API's schema.

A super pod is built from what this table lets through and never copied minus deletions. Must not
rewrite anything: `Written` names the module that does. A field that is not here rejects the pod.
"""

from collections.abc import Mapping

from syncer import policy
from syncer.leaves import ALLOW, FREE, Drop, Each, Fields, Only, Refuse, Verdict, Written

Table = Mapping[str, Verdict]

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

_HOST = Refuse("handler-host", "must be empty: handlers reach the pod itself; leave it out")
_HTTP_GET = Fields(
    {
        "host": _HOST,
        "httpHeaders": Each({"name": ALLOW, "value": ALLOW}),
        "path": ALLOW,
        "port": ALLOW,
        "scheme": ALLOW,
    }
)
_TCP_SOCKET = Fields({"host": _HOST, "port": ALLOW})
_EXEC = Fields({"command": ALLOW})
_HANDLER = Fields(
    {
        "exec": _EXEC,
        "httpGet": _HTTP_GET,
        "sleep": Fields({"seconds": ALLOW}),
        "tcpSocket": _TCP_SOCKET,
    }
)
_PROBE = Fields(
    {
        "exec": _EXEC,
        "failureThreshold": ALLOW,
        "grpc": Fields({"port": ALLOW, "service": ALLOW}),
        "httpGet": _HTTP_GET,
        "initialDelaySeconds": ALLOW,
        "periodSeconds": ALLOW,
        "successThreshold": ALLOW,
        "tcpSocket": _TCP_SOCKET,
        "terminationGracePeriodSeconds": ALLOW,
        "timeoutSeconds": ALLOW,
    }
)

_CLAIMS = Refuse("resource-claims", "asks for devices, which are not offered; leave it out")
_RESOURCES = Fields({"claims": _CLAIMS, "limits": FREE, "requests": FREE})

_PROFILE = Only(
    frozenset({"RuntimeDefault"}), "profile", "use RuntimeDefault, or leave the profile out"
)
_LOCAL_PROFILE = Refuse("profile", "names a file on the node; use type RuntimeDefault")
_SECCOMP = Fields({"type": _PROFILE, "localhostProfile": _LOCAL_PROFILE})
_SELINUX = Fields(
    {
        "level": ALLOW,
        "role": Refuse("selinux", "must not be set; leave it out"),
        "type": Only(policy.SELINUX_TYPES, "selinux", "use a container type such as container_t"),
        "user": Refuse("selinux", "must not be set; leave it out"),
    }
)
_WINDOWS = Refuse("windows", "is for Windows nodes, which are not offered; leave it out")

_SECURITY_CONTEXT = Fields(
    {
        "allowPrivilegeEscalation": ALLOW,
        "appArmorProfile": _SECCOMP,
        "capabilities": Fields(
            {
                "add": Only(
                    policy.CAPABILITIES,
                    "capabilities",
                    "add only what the baseline level of pod security allows",
                ),
                "drop": ALLOW,
            }
        ),
        "privileged": Refuse("privileged", "must not be true; run without privileges"),
        "procMount": Only(frozenset({"Default"}), "proc-mount", "use Default, or leave it out"),
        "readOnlyRootFilesystem": ALLOW,
        "runAsGroup": ALLOW,
        "runAsNonRoot": ALLOW,
        "runAsUser": ALLOW,
        "seLinuxOptions": _SELINUX,
        "seccompProfile": _SECCOMP,
        "windowsOptions": _WINDOWS,
    }
)

_KEYS = Each({"key": ALLOW, "mode": ALLOW, "path": ALLOW})
_FIELD_REF = Fields({"apiVersion": ALLOW, "fieldPath": ALLOW})
_RESOURCE_REF = Fields({"containerName": ALLOW, "divisor": ALLOW, "resource": ALLOW})
_KEY_REF = Fields({"key": ALLOW, "name": ALLOW, "optional": ALLOW})
_SOURCE_REF = Fields({"name": ALLOW, "optional": ALLOW})
_ENV = Each(
    {
        "name": ALLOW,
        "value": ALLOW,
        "valueFrom": Fields(
            {
                "configMapKeyRef": _KEY_REF,
                "fieldRef": _FIELD_REF,
                "fileKeyRef": Fields(
                    {"key": ALLOW, "optional": ALLOW, "path": ALLOW, "volumeName": ALLOW}
                ),
                "resourceFieldRef": _RESOURCE_REF,
                "secretKeyRef": _KEY_REF,
            }
        ),
    }
)

CONTAINER: Table = {
    "args": ALLOW,
    "command": ALLOW,
    "env": _ENV,
    "envFrom": Each({"configMapRef": _SOURCE_REF, "prefix": ALLOW, "secretRef": _SOURCE_REF}),
    "image": ALLOW,
    "imagePullPolicy": ALLOW,
    "lifecycle": Fields({"postStart": _HANDLER, "preStop": _HANDLER, "stopSignal": ALLOW}),
    "livenessProbe": _PROBE,
    "name": ALLOW,
    "ports": Each(
        {
            "containerPort": ALLOW,
            "hostIP": Refuse("host-port", "must not be set; use a Service"),
            "hostPort": Refuse("host-port", "must not be set; use a Service of type NodePort"),
            "name": ALLOW,
            "protocol": ALLOW,
        }
    ),
    "readinessProbe": _PROBE,
    "resizePolicy": Each({"resourceName": ALLOW, "restartPolicy": ALLOW}),
    "resources": _RESOURCES,
    "restartPolicy": ALLOW,
    "restartPolicyRules": Each(
        {"action": ALLOW, "exitCodes": Fields({"operator": ALLOW, "values": ALLOW})}
    ),
    "securityContext": _SECURITY_CONTEXT,
    "startupProbe": _PROBE,
    "stdin": ALLOW,
    "stdinOnce": ALLOW,
    "terminationMessagePath": ALLOW,
    "terminationMessagePolicy": ALLOW,
    "tty": ALLOW,
    "volumeDevices": Refuse("volume-devices", "needs a claim, and claims are not offered yet"),
    "volumeMounts": Each(
        {
            "mountPath": ALLOW,
            "mountPropagation": Only(
                frozenset({"None", "HostToContainer"}), "mount-propagation", "use HostToContainer"
            ),
            "name": ALLOW,
            "readOnly": ALLOW,
            "recursiveReadOnly": ALLOW,
            "subPath": ALLOW,
            "subPathExpr": ALLOW,
        }
    ),
    "workingDir": ALLOW,
}

_DOWNWARD_ITEMS = Each(
    {"fieldRef": _FIELD_REF, "mode": ALLOW, "path": ALLOW, "resourceFieldRef": _RESOURCE_REF}
)


def _no_volume(what: str) -> Refuse:
    return Refuse("volume-source", f"{what}; use configMap, secret, projected or emptyDir")


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
    "ephemeral": _no_volume("needs a claim, and claims are not offered yet"),
    "persistentVolumeClaim": _no_volume("is not offered yet"),
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

POD_SPEC: Table = {
    "activeDeadlineSeconds": ALLOW,
    "affinity": _AFFINITY,
    "automountServiceAccountToken": Written("pods"),
    "containers": Each(CONTAINER),
    "dnsConfig": Written("pod_dns"),
    "dnsPolicy": Written("pod_dns"),
    "enableServiceLinks": Written("pod_env"),
    "ephemeralContainers": Drop("they are added to a running pod and follow on their own"),
    "hostAliases": Each({"hostnames": ALLOW, "ip": ALLOW}),
    "hostIPC": _HOST_NAMESPACE,
    "hostNetwork": _HOST_NAMESPACE,
    "hostPID": _HOST_NAMESPACE,
    "hostUsers": ALLOW,
    "hostname": ALLOW,
    "hostnameOverride": ALLOW,
    "imagePullSecrets": Each({"name": ALLOW}),
    "initContainers": Each(CONTAINER),
    "nodeName": Written("pod_scheduling"),
    "nodeSelector": FREE,
    "os": Fields({"name": Only(frozenset({"linux"}), "os", "use linux, or leave it out")}),
    "overhead": Drop("the super cluster's admission fills it in"),
    "preemptionPolicy": Drop("follows from the class that the super cluster chooses"),
    "priority": Drop("follows from the class that the super cluster chooses"),
    "priorityClassName": Written("pod_scheduling"),
    "readinessGates": Each({"conditionType": ALLOW}),
    "resourceClaims": _CLAIMS,
    "resources": _RESOURCES,
    "restartPolicy": ALLOW,
    "runtimeClassName": Refuse("runtime-class", "names no class that is offered; leave it out"),
    "schedulerName": Drop("the super cluster's scheduler places the pod"),
    "schedulingGates": Written("pods"),
    "schedulingGroup": Refuse("scheduling-group", "is not offered; leave it out"),
    "securityContext": Fields(
        {
            "appArmorProfile": _SECCOMP,
            "fsGroup": ALLOW,
            "fsGroupChangePolicy": ALLOW,
            "runAsGroup": ALLOW,
            "runAsNonRoot": ALLOW,
            "runAsUser": ALLOW,
            "seLinuxChangePolicy": ALLOW,
            "seLinuxOptions": _SELINUX,
            "seccompProfile": _SECCOMP,
            "supplementalGroups": ALLOW,
            "supplementalGroupsPolicy": ALLOW,
            "sysctls": Each(
                {
                    "name": Only(policy.SYSCTLS, "sysctls", "use only the safe ones"),
                    "value": ALLOW,
                }
            ),
            "windowsOptions": _WINDOWS,
        }
    ),
    "serviceAccount": Drop("the older spelling of serviceAccountName"),
    "serviceAccountName": Written("pods"),
    "setHostnameAsFQDN": Written("pod_dns"),
    "shareProcessNamespace": ALLOW,
    "subdomain": ALLOW,
    "terminationGracePeriodSeconds": Written("pods"),
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
}
