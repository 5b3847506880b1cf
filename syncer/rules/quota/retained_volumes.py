"""Super volumes that outlive their claims, because their reclaim policy is Retain.

Pure. They count as storage of the tenant whose claim they were for. Must not know the caches.

Hazard: the tenant is found by the name of the super namespace, because that namespace is often
deleted. A name of more than 63 characters is cut, and is found only if the root namespace has fewer
than 46 characters.
"""

import re
from collections.abc import Iterable

from kubeio.cache.store import Entry
from syncer.model.unstructured import as_mapping

RETAINED_INDEX = "retained"
"""Index of super volumes with the reclaim policy Retain, by the possible root namespaces of the
tenant."""
_ROOT = re.compile(r".+-[0-9a-f]{6}-.+")


def list_possible_roots(super_namespace: str) -> list[str]:
    """Return the beginnings of a super namespace that have the form of a root namespace.

    Names of tenants differ in the digest of their UID.
    """
    parts = super_namespace.split("-")
    joined = ("-".join(parts[:count]) for count in range(3, len(parts)))
    return [root for root in joined if _ROOT.fullmatch(root)]


def index_by_retained_root(volume: Entry) -> Iterable[str]:
    """Return the index values of a super volume."""
    if b'"Retain"' not in volume.body:
        return ()
    spec = as_mapping(volume.decode().get("spec"))
    if spec.get("persistentVolumeReclaimPolicy") != "Retain":
        return ()
    return list_possible_roots(str(as_mapping(spec.get("claimRef")).get("namespace") or ""))
