"""Verdicts on every leaf of a container, as data that is compared with the API's schema.

Part of the table of `syncer.rules.pods.pod_fields`. Ephemeral containers use it as well. Must not
rewrite anything.

Hazard: every field of the API must be listed here. A field that is missing rejects the pod.
"""

from collections.abc import Mapping

from syncer.model import builtin_policy
from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    AllowValues,
    FieldRule,
    ListOfObjects,
    ObjectFields,
    RefuseField,
)

FieldRules = Mapping[str, FieldRule]

_HOST_RULE = RefuseField(
    "handler-host", "must be empty, because handlers reach the pod itself. Leave it out"
)
_HTTP_GET = ObjectFields(
    {
        "host": _HOST_RULE,
        "httpHeaders": ListOfObjects({"name": ALLOW_SCALAR, "value": ALLOW_SCALAR}),
        "path": ALLOW_SCALAR,
        "port": ALLOW_SCALAR,
        "protocol": ALLOW_SCALAR,
        "scheme": ALLOW_SCALAR,
    }
)
_TCP_SOCKET = ObjectFields({"host": _HOST_RULE, "port": ALLOW_SCALAR})
_EXEC = ObjectFields({"command": ALLOW_SCALAR})
_HANDLER = ObjectFields(
    {
        "exec": _EXEC,
        "httpGet": _HTTP_GET,
        "sleep": ObjectFields({"seconds": ALLOW_SCALAR}),
        "tcpSocket": _TCP_SOCKET,
    }
)
_PROBE = ObjectFields(
    {
        "exec": _EXEC,
        "failureThreshold": ALLOW_SCALAR,
        "grpc": ObjectFields({"mode": ALLOW_SCALAR, "port": ALLOW_SCALAR, "service": ALLOW_SCALAR}),
        "httpGet": _HTTP_GET,
        "initialDelaySeconds": ALLOW_SCALAR,
        "periodSeconds": ALLOW_SCALAR,
        "successThreshold": ALLOW_SCALAR,
        "tcpSocket": _TCP_SOCKET,
        "terminationGracePeriodSeconds": ALLOW_SCALAR,
        "timeoutSeconds": ALLOW_SCALAR,
    }
)

CLAIMS_RULE = RefuseField(
    "resource-claims",
    "asks for devices, which are not offered. Leave it out, or ask your platform administrator for"
    " a SyncRule of ResourceClaim",
)
RESOURCES_RULE = ObjectFields({"claims": CLAIMS_RULE, "limits": ALLOW_MAP, "requests": ALLOW_MAP})

_PROFILE_RULE = AllowValues(
    frozenset({"RuntimeDefault"}), "profile", "Use RuntimeDefault, or leave the profile out"
)
_LOCAL_PROFILE_RULE = RefuseField("profile", "names a file on the node. Use type RuntimeDefault")
SECCOMP = ObjectFields({"type": _PROFILE_RULE, "localhostProfile": _LOCAL_PROFILE_RULE})
SELINUX = ObjectFields(
    {
        "level": ALLOW_SCALAR,
        "role": RefuseField("selinux", "must not be set. Leave it out"),
        "type": AllowValues(
            builtin_policy.SELINUX_TYPES, "selinux", "Use a container type such as container_t"
        ),
        "user": RefuseField("selinux", "must not be set. Leave it out"),
    }
)
WINDOWS = RefuseField("windows", "is for Windows nodes, which are not offered. Leave it out")

_SECURITY_CONTEXT = ObjectFields(
    {
        "allowPrivilegeEscalation": ALLOW_SCALAR,
        "appArmorProfile": SECCOMP,
        "capabilities": ObjectFields(
            {
                "add": AllowValues(
                    builtin_policy.CAPABILITIES,
                    "capabilities",
                    "Add only capabilities that the baseline level of pod security allows."
                    " `kubectl debug` with --profile=baseline adds none",
                ),
                "drop": ALLOW_SCALAR,
            }
        ),
        "privileged": RefuseField("privileged", "must not be true. Run without privileges"),
        "procMount": AllowValues(
            frozenset({"Default"}), "proc-mount", "Use Default, or leave it out"
        ),
        "readOnlyRootFilesystem": ALLOW_SCALAR,
        "runAsGroup": ALLOW_SCALAR,
        "runAsNonRoot": ALLOW_SCALAR,
        "runAsUser": ALLOW_SCALAR,
        "seLinuxOptions": SELINUX,
        "seccompProfile": SECCOMP,
        "windowsOptions": WINDOWS,
    }
)

FIELD_REF = ObjectFields({"apiVersion": ALLOW_SCALAR, "fieldPath": ALLOW_SCALAR})
RESOURCE_REF = ObjectFields(
    {"containerName": ALLOW_SCALAR, "divisor": ALLOW_SCALAR, "resource": ALLOW_SCALAR}
)
_KEY_REF = ObjectFields({"key": ALLOW_SCALAR, "name": ALLOW_SCALAR, "optional": ALLOW_SCALAR})
_SOURCE_REF = ObjectFields({"name": ALLOW_SCALAR, "optional": ALLOW_SCALAR})
_ENV = ListOfObjects(
    {
        "name": ALLOW_SCALAR,
        "value": ALLOW_SCALAR,
        "valueFrom": ObjectFields(
            {
                "configMapKeyRef": _KEY_REF,
                "fieldRef": FIELD_REF,
                "fileKeyRef": ObjectFields(
                    {
                        "key": ALLOW_SCALAR,
                        "optional": ALLOW_SCALAR,
                        "path": ALLOW_SCALAR,
                        "volumeName": ALLOW_SCALAR,
                    }
                ),
                "resourceFieldRef": RESOURCE_REF,
                "secretKeyRef": _KEY_REF,
            }
        ),
    }
)

CONTAINER: FieldRules = {
    "args": ALLOW_SCALAR,
    "command": ALLOW_SCALAR,
    "env": _ENV,
    "envFrom": ListOfObjects(
        {"configMapRef": _SOURCE_REF, "prefix": ALLOW_SCALAR, "secretRef": _SOURCE_REF}
    ),
    "image": ALLOW_SCALAR,
    "imagePullPolicy": ALLOW_SCALAR,
    "lifecycle": ObjectFields(
        {"postStart": _HANDLER, "preStop": _HANDLER, "stopSignal": ALLOW_SCALAR}
    ),
    "livenessProbe": _PROBE,
    "name": ALLOW_SCALAR,
    "ports": ListOfObjects(
        {
            "containerPort": ALLOW_SCALAR,
            "hostIP": RefuseField("host-port", "must not be set. Use a Service"),
            "hostPort": RefuseField("host-port", "must not be set. Use a Service of type NodePort"),
            "name": ALLOW_SCALAR,
            "protocol": ALLOW_SCALAR,
        }
    ),
    "readinessProbe": _PROBE,
    "resizePolicy": ListOfObjects({"resourceName": ALLOW_SCALAR, "restartPolicy": ALLOW_SCALAR}),
    "resources": RESOURCES_RULE,
    "restartPolicy": ALLOW_SCALAR,
    "restartPolicyRules": ListOfObjects(
        {
            "action": ALLOW_SCALAR,
            "exitCodes": ObjectFields({"operator": ALLOW_SCALAR, "values": ALLOW_SCALAR}),
        }
    ),
    "securityContext": _SECURITY_CONTEXT,
    "startupProbe": _PROBE,
    "stdin": ALLOW_SCALAR,
    "stdinOnce": ALLOW_SCALAR,
    "terminationMessagePath": ALLOW_SCALAR,
    "terminationMessagePolicy": ALLOW_SCALAR,
    "tty": ALLOW_SCALAR,
    "volumeDevices": ListOfObjects({"devicePath": ALLOW_SCALAR, "name": ALLOW_SCALAR}),
    "volumeMounts": ListOfObjects(
        {
            # These three options only restrict. `exec`, `dev` and `suid` would lift a restriction.
            "bindMountOptions": AllowValues(
                frozenset({"noexec", "nodev", "nosuid"}),
                "mount-options",
                "Use only noexec, nodev and nosuid",
            ),
            "mountPath": ALLOW_SCALAR,
            "mountPropagation": AllowValues(
                frozenset({"None", "HostToContainer"}), "mount-propagation", "Use HostToContainer"
            ),
            "name": ALLOW_SCALAR,
            "readOnly": ALLOW_SCALAR,
            "recursiveReadOnly": ALLOW_SCALAR,
            "subPath": ALLOW_SCALAR,
            "subPathExpr": ALLOW_SCALAR,
        }
    ),
    "workingDir": ALLOW_SCALAR,
}
