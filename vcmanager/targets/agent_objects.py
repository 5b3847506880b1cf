"""Manifests of a target's agent: a Secret and a Deployment in the home cluster.

Owns both manifests. Pure. Must not know which objects exist. Hazard: the Secret has the credential
for every pod of the target. Only this Deployment may mount it, and its pods run under an account
without any right to pods in the home cluster. The agent also runs without a credential, because it
reports to tenants that the credential is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kubeio import Object
from kubeio.config.endpoint import Endpoint
from kubeio.config.secret_kubeconfig import KUBELET_AUTHORITIES_KEY
from tenancy import wellknown
from tenancy.resources import SUPER_CLUSTERS
from tenancy.super_clusters import AccessMode
from vcmanager.pki import bundles
from vcmanager.runtime.object_metadata import compute_digest
from vcmanager.runtime.options import AgentPodSettings

AGENT_COMPONENT = wellknown.TARGET_AGENT
PLACEHOLDER_SERVER = "https://target.invalid"
"""Server without a credential. It is never called."""
NO_CREDENTIAL_KEY = "none"
_APP_LABEL_PREFIX = "app.kubernetes.io"
_ACCOUNT_FILES = "/var/run/secrets/kubernetes.io/serviceaccount"
_HEALTH_PORT, _METRICS_PORT = 10551, 10552
_UPSTREAM_SETTINGS: Mapping[AccessMode, str] = {"agent": "kubelet", "apiserver": "apiserver"}
"""The agent's words for the modes."""


class AgentServers(NamedTuple):
    """Servers that the agent sends its credential to, and their authorities."""

    api: Endpoint
    kubelets: bytes = b""
    """Authorities of the kubelets that open streams. Empty: the API server opens them."""

    @property
    def server_identity(self) -> str:
        """Return a digest of these servers. A token for one digest must not be sent to another."""
        api = self.api
        parts = [api.server, api.tls_server_name, api.ca.decode("latin-1")]
        return compute_digest([*parts, self.kubelets.decode("latin-1")] if self.kubelets else parts)

    @property
    def token_key(self) -> str:
        """Return the Secret's key of the token. A pod made for other servers does not mount it.

        With one key for all, an older pod would read the new token. It would send it to servers
        that it still trusts, such as a kubelet of an authority just withdrawn.
        """
        return f"token-{self.server_identity}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDeployment:
    """One agent: its SuperCluster, and its namespace."""

    name: str
    """Name of the SuperCluster."""
    uid: str
    """UID of the SuperCluster: the registration."""
    namespace: str
    """Namespace of the components."""
    mode: AccessMode = "apiserver"
    """Server that opens streams in the target."""

    @property
    def object_name(self) -> str:
        """Return the name of the Secret and of the Deployment."""
        return build_object_name(self.name)

    def build_metadata(self) -> Object:
        """Return the metadata of both objects. They are deleted with the SuperCluster."""
        owner = {
            "apiVersion": SUPER_CLUSTERS.api_version,
            "kind": SUPER_CLUSTERS.kind,
            "name": self.name,
            "uid": self.uid,
        }
        return {
            "name": self.object_name,
            "namespace": self.namespace,
            "labels": {
                wellknown.CONTROLLED: "true",
                wellknown.COMPONENT: AGENT_COMPONENT,
                wellknown.TARGET: self.name,
                wellknown.SUPER_CLUSTER: self.uid,
            },
            "ownerReferences": [owner],
        }


def build_object_name(name: str) -> str:
    """Return the name of the Secret and the Deployment for a SuperCluster."""
    return f"{AGENT_COMPONENT}-{name}"


def build_secret(agent: AgentDeployment, servers: AgentServers, token: str) -> Object:
    """Return the Secret with the agent's credential for the target."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": agent.build_metadata(),
        "type": "Opaque",
        "data": {
            servers.token_key: bundles.encode_base64(token.encode()),
            "ca.crt": bundles.encode_base64(servers.api.ca),
            **(
                {KUBELET_AUTHORITIES_KEY: bundles.encode_base64(servers.kubelets)}
                if servers.kubelets
                else {}
            ),
        },
    }


def build_deployment(
    agent: AgentDeployment,
    pods: AgentPodSettings,
    servers: AgentServers | None,
    *,
    has_credential: bool,
) -> Object:
    """Return the Deployment.

    Its pods are recreated when a server, an authority or the mode changes. They are also recreated
    when the credential is added or removed, because an agent keeps using the files it has read.
    """
    labels = {
        f"{_APP_LABEL_PREFIX}/name": AGENT_COMPONENT,
        f"{_APP_LABEL_PREFIX}/instance": pods.instance,
        f"{_APP_LABEL_PREFIX}/part-of": "virtual-cluster",
        wellknown.TARGET: agent.name,
        wellknown.SUPER_CLUSTER: agent.uid,
    }
    selected = {key: labels[key] for key in (f"{_APP_LABEL_PREFIX}/name", wellknown.SUPER_CLUSTER)}
    known = servers.server_identity if servers is not None and has_credential else NO_CREDENTIAL_KEY
    annotations = {**pods.pod_annotations, wellknown.SECRETS_DIGEST: known}
    made: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": agent.build_metadata(),
        "spec": {
            "replicas": pods.replicas,
            "revisionHistoryLimit": 1,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        "kubectl.kubernetes.io/default-container": "vn-agent",
                        **annotations,
                    },
                },
                "spec": _build_pod(agent, pods, servers, selected),
            },
        },
    }
    made["metadata"]["annotations"] = {wellknown.LAST_WRITTEN_DIGEST: compute_digest(made)}
    return made


def _build_pod(
    agent: AgentDeployment, pods: AgentPodSettings, servers: AgentServers | None, selected: Object
) -> Object:
    identity = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selected},
    }
    spec: Object = {
        "serviceAccountName": AGENT_COMPONENT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"kubernetes.io/os": "linux", **pods.node_selector},
        "securityContext": {**identity, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [spread],
        "containers": [_build_container(agent, pods, servers.api if servers is not None else None)],
        "volumes": _build_volumes(agent, servers),
    }
    optional = {
        "imagePullSecrets": [*pods.image_pull_secrets],
        "priorityClassName": pods.priority_class_name,
        "tolerations": [*pods.tolerations],
        "affinity": pods.affinity,
    }
    return spec | {field: value for field, value in optional.items() if value}


def _build_container(
    agent: AgentDeployment, pods: AgentPodSettings, endpoint: Endpoint | None
) -> Object:
    fields = {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
        "POD_IP": "status.podIP",
    }
    values = {
        "LOG_LEVEL": pods.log_level,
        "METRICS_PORT": str(_METRICS_PORT if pods.secure_metrics else 0),
        "CLIENT_CA_FILE": "/etc/vn-agent/trust/client-ca.crt",
        "TARGET_SERVER": endpoint.server if endpoint is not None else PLACEHOLDER_SERVER,
        "TARGET_SERVER_NAME": endpoint.tls_server_name if endpoint is not None else "",
        "UPSTREAM": _UPSTREAM_SETTINGS[agent.mode],
        "TARGET_REGISTRATION": agent.uid,
    }
    ports = {"kubelet": wellknown.AGENT_PORT, "http": _HEALTH_PORT}
    if pods.secure_metrics:
        ports["metrics"] = _METRICS_PORT
    return {
        "name": "vn-agent",
        "image": pods.image,
        "imagePullPolicy": pods.image_pull_policy,
        "env": [
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in fields.items()
            ),
            *({"name": name, "value": value} for name, value in values.items() if value),
        ],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "startupProbe": _build_probe("/healthz", initialDelaySeconds=2, period=1, failures=60),
        "readinessProbe": _build_probe("/readyz", timeoutSeconds=5, period=5, failures=3),
        "livenessProbe": _build_probe("/healthz", timeoutSeconds=5, period=10, failures=3),
        **({"resources": pods.resources} if pods.resources else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "token", "mountPath": _ACCOUNT_FILES, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of its own
            {"name": "trust", "mountPath": "/etc/vn-agent/trust", "readOnly": True},
            {"name": "target", "mountPath": "/etc/vn-agent/target", "readOnly": True},
        ],
    }


def _build_probe(path: str, *, period: int, failures: int, **more: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "failureThreshold": failures,
        **more,
    }


def _build_volumes(agent: AgentDeployment, servers: AgentServers | None) -> list[Object]:
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    files = {"ca.crt": "ca.crt", KUBELET_AUTHORITIES_KEY: KUBELET_AUTHORITIES_KEY}
    if servers is not None:
        files |= {servers.token_key: "token"}
    return [
        {"name": "token", "projected": {"defaultMode": 0o440, "sources": sources}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": "trust", "configMap": {"name": wellknown.AGENT_CLIENT_TRUST}},
        {
            "name": "target",
            "secret": {
                "secretName": agent.object_name,
                "items": [{"key": key, "path": path} for key, path in files.items()],
                "optional": True,  # also each key
                "defaultMode": 0o440,
            },
        },
    ]
