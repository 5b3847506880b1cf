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
from kubeio.config.secret_kubeconfig import KUBELET_AUTHORITIES
from tenancy import wellknown
from tenancy.resources import SUPER_CLUSTERS
from tenancy.super_clusters import Mode
from vcmanager.pki import bundles
from vcmanager.runtime.object_metadata import digest
from vcmanager.runtime.options import AgentPods

COMPONENT = wellknown.TARGET_AGENT
NOWHERE = "https://target.invalid"
"""In place of a server that nobody knows: without a credential nothing is asked of it."""
NO_CREDENTIAL = "none"
_APP = "app.kubernetes.io"
_ACCOUNT_FILES = "/var/run/secrets/kubernetes.io/serviceaccount"
_HEALTH_PORT, _METRICS_PORT = 10551, 10552
_UPSTREAMS: Mapping[Mode, str] = {"agent": "kubelet", "apiserver": "apiserver"}
"""The agent's words for the modes."""


class Servers(NamedTuple):
    """Whom the agent shows its credential, and by what it knows them."""

    api: Endpoint
    kubelets: bytes = b""
    """Authorities of the kubelets that open streams; empty: the API server does."""

    @property
    def place(self) -> str:
        """What tells two of these apart: a token for one must not be shown to another."""
        api = self.api
        parts = [api.server, api.tls_server_name, api.ca.decode("latin-1")]
        return digest([*parts, self.kubelets.decode("latin-1")] if self.kubelets else parts)

    @property
    def token_key(self) -> str:
        """Under what the Secret has the token for these: a pod made for others mounts no such key.

        With one key for all, a pod of the earlier make would read the new token and show it to
        whom it still believes, a kubelet of an authority just withdrawn among them.
        """
        return f"token-{self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One agent: for which SuperCluster, and where."""

    name: str
    """Of the SuperCluster."""
    uid: str
    """Of the SuperCluster: the registration."""
    namespace: str
    """Of the components."""
    mode: Mode = "apiserver"
    """Who opens streams there."""

    @property
    def title(self) -> str:
        """Name of the Secret and of the Deployment."""
        return title_of(self.name)

    def metadata(self) -> Object:
        """Return the metadata of both; they go with the SuperCluster."""
        owner = {
            "apiVersion": SUPER_CLUSTERS.api_version,
            "kind": SUPER_CLUSTERS.kind,
            "name": self.name,
            "uid": self.uid,
        }
        return {
            "name": self.title,
            "namespace": self.namespace,
            "labels": {
                wellknown.CONTROLLED: "true",
                wellknown.COMPONENT: COMPONENT,
                wellknown.TARGET: self.name,
                wellknown.SUPER_CLUSTER: self.uid,
            },
            "ownerReferences": [owner],
        }


def title_of(name: str) -> str:
    """Return how the Secret and the Deployment for a SuperCluster are called."""
    return f"{COMPONENT}-{name}"


def secret(post: Post, servers: Servers, token: str) -> Object:
    """Return the Secret with the agent's credential for the target."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": post.metadata(),
        "type": "Opaque",
        "data": {
            servers.token_key: bundles.encoded(token.encode()),
            "ca.crt": bundles.encoded(servers.api.ca),
            **(
                {KUBELET_AUTHORITIES: bundles.encoded(servers.kubelets)} if servers.kubelets else {}
            ),
        },
    }


def deployment(
    post: Post, pods: AgentPods, servers: Servers | None, *, has_credential: bool
) -> Object:
    """Return the Deployment; its pods are made anew when a server, an authority or the mode is.

    And when the credential comes or goes: an agent keeps using what it has read.
    """
    labels = {
        f"{_APP}/name": COMPONENT,
        f"{_APP}/instance": pods.instance,
        f"{_APP}/part-of": "virtual-cluster",
        wellknown.TARGET: post.name,
        wellknown.SUPER_CLUSTER: post.uid,
    }
    selected = {key: labels[key] for key in (f"{_APP}/name", wellknown.SUPER_CLUSTER)}
    known = servers.place if servers is not None and has_credential else NO_CREDENTIAL
    annotations = {**pods.pod_annotations, wellknown.SECRETS_DIGEST: known}
    made: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": post.metadata(),
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
                "spec": _pod(post, pods, servers, selected),
            },
        },
    }
    made["metadata"]["annotations"] = {wellknown.DIGEST: digest(made)}
    return made


def _pod(post: Post, pods: AgentPods, servers: Servers | None, selected: Object) -> Object:
    identity = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selected},
    }
    spec: Object = {
        "serviceAccountName": COMPONENT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"kubernetes.io/os": "linux", **pods.node_selector},
        "securityContext": {**identity, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [spread],
        "containers": [_container(post, pods, servers.api if servers is not None else None)],
        "volumes": _volumes(post, servers),
    }
    optional = {
        "imagePullSecrets": [*pods.image_pull_secrets],
        "priorityClassName": pods.priority_class_name,
        "tolerations": [*pods.tolerations],
        "affinity": pods.affinity,
    }
    return spec | {field: value for field, value in optional.items() if value}


def _container(post: Post, pods: AgentPods, endpoint: Endpoint | None) -> Object:
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
        "TARGET_SERVER": endpoint.server if endpoint is not None else NOWHERE,
        "TARGET_SERVER_NAME": endpoint.tls_server_name if endpoint is not None else "",
        "UPSTREAM": _UPSTREAMS[post.mode],
        "TARGET_REGISTRATION": post.uid,
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
        "startupProbe": _probe("/healthz", initialDelaySeconds=2, period=1, failures=60),
        "readinessProbe": _probe("/readyz", timeoutSeconds=5, period=5, failures=3),
        "livenessProbe": _probe("/healthz", timeoutSeconds=5, period=10, failures=3),
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


def _probe(path: str, *, period: int, failures: int, **more: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "failureThreshold": failures,
        **more,
    }


def _volumes(post: Post, servers: Servers | None) -> list[Object]:
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    files = {"ca.crt": "ca.crt", KUBELET_AUTHORITIES: KUBELET_AUTHORITIES}
    if servers is not None:
        files |= {servers.token_key: "token"}
    return [
        {"name": "token", "projected": {"defaultMode": 0o440, "sources": sources}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": "trust", "configMap": {"name": wellknown.AGENT_CLIENT_TRUST}},
        {
            "name": "target",
            "secret": {
                "secretName": post.title,
                "items": [{"key": key, "path": path} for key, path in files.items()],
                "optional": True,  # each key as well
                "defaultMode": 0o440,
            },
        },
    ]
