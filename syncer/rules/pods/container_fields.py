"""Verdicts on every leaf of a container, as data that is compared with the API's schema.

Part of the table of `syncer.rules.pods.pod_fields`. Ephemeral containers use it as well. Must not
rewrite anything.

Hazard: every field of the API must be listed here. A field that is missing rejects the pod.
"""

from collections.abc import Mapping

from syncer.model import builtin_policy
from syncer.model.field_rules import ALLOW, FREE, Each, Fields, Only, Refuse, Verdict

Table = Mapping[str, Verdict]

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

CLAIMS = Refuse("resource-claims", "asks for devices, which are not offered; leave it out")
RESOURCES = Fields({"claims": CLAIMS, "limits": FREE, "requests": FREE})

_PROFILE = Only(
    frozenset({"RuntimeDefault"}), "profile", "use RuntimeDefault, or leave the profile out"
)
_LOCAL_PROFILE = Refuse("profile", "names a file on the node; use type RuntimeDefault")
SECCOMP = Fields({"type": _PROFILE, "localhostProfile": _LOCAL_PROFILE})
SELINUX = Fields(
    {
        "level": ALLOW,
        "role": Refuse("selinux", "must not be set; leave it out"),
        "type": Only(
            builtin_policy.SELINUX_TYPES, "selinux", "use a container type such as container_t"
        ),
        "user": Refuse("selinux", "must not be set; leave it out"),
    }
)
WINDOWS = Refuse("windows", "is for Windows nodes, which are not offered; leave it out")

_SECURITY_CONTEXT = Fields(
    {
        "allowPrivilegeEscalation": ALLOW,
        "appArmorProfile": SECCOMP,
        "capabilities": Fields(
            {
                "add": Only(
                    builtin_policy.CAPABILITIES,
                    "capabilities",
                    "add only what the baseline level of pod security allows; `kubectl debug` with"
                    " --profile=baseline adds nothing",
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
        "seLinuxOptions": SELINUX,
        "seccompProfile": SECCOMP,
        "windowsOptions": WINDOWS,
    }
)

FIELD_REF = Fields({"apiVersion": ALLOW, "fieldPath": ALLOW})
RESOURCE_REF = Fields({"containerName": ALLOW, "divisor": ALLOW, "resource": ALLOW})
_KEY_REF = Fields({"key": ALLOW, "name": ALLOW, "optional": ALLOW})
_SOURCE_REF = Fields({"name": ALLOW, "optional": ALLOW})
_ENV = Each(
    {
        "name": ALLOW,
        "value": ALLOW,
        "valueFrom": Fields(
            {
                "configMapKeyRef": _KEY_REF,
                "fieldRef": FIELD_REF,
                "fileKeyRef": Fields(
                    {"key": ALLOW, "optional": ALLOW, "path": ALLOW, "volumeName": ALLOW}
                ),
                "resourceFieldRef": RESOURCE_REF,
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
    "resources": RESOURCES,
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
    "volumeDevices": Each({"devicePath": ALLOW, "name": ALLOW}),
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
