"""Pod Security Standard `restricted`, for decisions without a cluster. Pure.

The syncer leaves these rules to the admission of the super cluster, which is not part of its code.
The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ beyond
the level baseline, for Linux pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_VOLUME_TYPES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret", "name"),
    }
)
_SECCOMP_TYPES = ("RuntimeDefault", "Localhost")
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def find_violations(spec: Mapping[str, Any]) -> list[str]:
    """Return the fields of a well-formed PodSpec that violate the level restricted."""
    return [*_find_pod_violations(spec), *_find_container_violations(spec)]


def _find_pod_violations(spec: Mapping[str, Any]) -> Iterator[str]:
    context = spec.get("securityContext") or {}
    if context.get("runAsUser") == 0:
        yield "securityContext.runAsUser must not be 0"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source in sorted(volume.keys() - _VOLUME_TYPES):
            yield f"volumes[{index}].{source} is not an allowed type of volume"


def _find_container_violations(spec: Mapping[str, Any]) -> Iterator[str]:
    pod_context = spec.get("securityContext") or {}
    for kind in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            context, path = container.get("securityContext") or {}, f"{kind}[{index}]"
            merged = {**pod_context, **context}
            capabilities = context.get("capabilities") or {}
            if context.get("allowPrivilegeEscalation") is not False:
                yield f"{path}.securityContext.allowPrivilegeEscalation must be false"
            if "ALL" not in (capabilities.get("drop") or ()):
                yield f"{path}.securityContext.capabilities.drop must have ALL"
            if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
                yield f"{path}.securityContext.capabilities.add may only have NET_BIND_SERVICE"
            if merged.get("runAsNonRoot") is not True:
                yield f"{path}.securityContext.runAsNonRoot must be true, here or for the pod"
            if context.get("runAsUser") == 0:
                yield f"{path}.securityContext.runAsUser must not be 0"
            if (merged.get("seccompProfile") or {}).get("type") not in _SECCOMP_TYPES:
                yield (
                    f"{path}.securityContext.seccompProfile.type must be RuntimeDefault or"
                    " Localhost, here or for the pod"
                )
