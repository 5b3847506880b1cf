"""PersistentVolumeClaims of a StatefulSet, created before its pods.

Pure. The scheduler delays a pod without its claim by 1 s, with a warning that alarms users. The
StatefulSet adopts existing claims. Names and labels are those of its controller
(getPersistentVolumeClaims in pkg/controller/statefulset).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeio import Object


def iterate_claims(stateful_set: Mapping[str, Any]) -> Iterator[Object]:
    """Yield the claims of every replica."""
    metadata, spec = stateful_set["metadata"], stateful_set["spec"]
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    for ordinal in range(spec.get("replicas", 1)):
        for template in spec.get("volumeClaimTemplates") or ():
            inner = template["metadata"]
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"{inner['name']}-{metadata['name']}-{ordinal}",
                    "namespace": metadata["namespace"],
                    "labels": {**(inner.get("labels") or {}), **labels},
                    **({"annotations": found} if (found := inner.get("annotations")) else {}),
                },
                "spec": template["spec"],
            }
