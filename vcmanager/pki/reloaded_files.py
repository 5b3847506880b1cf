"""Files that the programs of a control plane read again while they run.

Owns the table of flags, and which mounted files need a new pod when they change. Pure. Hazard: a
flag in the table must be read again by every supported minor. A pod would otherwise serve an
expired certificate until its next restart.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

RELOADED_FLAGS: Mapping[str, frozenset[str]] = {
    # client/pkg/transport/listener.go reads certificate and key at each handshake, as a server and
    # as a client. It reads the trusted CAs once.
    "etcd": frozenset({"--cert-file", "--key-file", "--peer-cert-file", "--peer-key-file"}),
    "apiserver": frozenset(
        {
            # apiserver/pkg/server/dynamiccertificates: watches the file, and reads it each minute.
            "--tls-cert-file",
            "--tls-private-key-file",
            "--client-ca-file",
            "--requestheader-client-ca-file",
            "--proxy-client-cert-file",
            "--proxy-client-key-file",
            # pkg/kubelet/client/kubelet_client.go: ReloadTLSFiles, for new connections.
            "--kubelet-client-certificate",
            "--kubelet-client-key",
            # The client of etcd, with etcd's own transport package. --etcd-cafile is read once.
            "--etcd-certfile",
            "--etcd-keyfile",
        }
    ),
    # pkg/controller/certificates/signer/ca_provider.go. The kubeconfig has its certificate inline
    # and is read once, as are --root-ca-file and the ServiceAccount keys.
    "controller-manager": frozenset({"--cluster-signing-cert-file", "--cluster-signing-key-file"}),
}
"""Per component: flags with files that are read again. No row differs between 1.35, 1.36 and 1.37.

Every other file is read once, such as the ServiceAccount keys and the CAs of etcd and of agents.
"""


AUTHENTICATION_CONFIG_MAP, AUTHENTICATION_KEY = "apiserver-config", "authentication.yaml"
"""ConfigMap and key of the authentication configuration of an API server."""
ISSUERS_LINE = "\njwt: "
"""Start of its last line: the issuers. The API server reads them again within some minutes.

The rest of the file is read once (k8s.io/apiserver/pkg/server/options/authentication.go).
"""


def get_read_once_data(kind: str, manifest: Mapping[str, Any]) -> Any:
    """Return the `data` of a Secret or ConfigMap without the lines that a program reads again."""
    data: Any = manifest.get("data")
    if (kind, manifest["metadata"]["name"]) != ("ConfigMap", AUTHENTICATION_CONFIG_MAP):
        return data
    file = (data or {}).get(AUTHENTICATION_KEY)
    if not isinstance(file, str) or ISSUERS_LINE not in file:
        return data
    return {**data, AUTHENTICATION_KEY: file.partition(ISSUERS_LINE)[0] + "\n"}


def is_reloaded(component: str, pod_spec: Mapping[str, Any], volume: str, path: str) -> bool:
    """Return whether the program reads a file of a volume again after it changed.

    `path` is relative to the volume. A file that no flag names, or that a second container or a
    flag outside of the table uses, counts as read once.
    """
    table = RELOADED_FLAGS.get(component)
    containers = [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]
    mounts = [
        (container, mount)
        for container in containers
        for mount in container.get("volumeMounts") or ()
        if mount.get("name") == volume
    ]
    # The kubelet does not update a file that is mounted with subPath.
    if table is None or len(mounts) != 1 or mounts[0][1].get("subPath"):
        return False
    container, mount = mounts[0]
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    file = posixpath.normpath(posixpath.join(str(mount["mountPath"]), path))
    flags = list(_iterate_flags_with(file, words))
    return bool(flags) and all(flag in table for flag in flags)


def _iterate_flags_with(file: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the flag of each word that names a file, or the word itself if it is no flag."""
    before = ""
    for word in map(str, words):
        flag, separator, value = word.partition("=")
        if separator and flag.startswith("--") and posixpath.normpath(value) == file:
            yield flag
        elif posixpath.normpath(word) == file:
            yield before
        elif file in word:
            yield word
        before = word
