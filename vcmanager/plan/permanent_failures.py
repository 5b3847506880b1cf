"""Failures of a component that only a person can end, with reason and remedy. Pure.

Owns the table of such failures. Kubernetes retries each of them without end. Kubelets, controllers
and registries report them in words only, and this module is the one place that reads the words.
Must not know conditions or time. Hazard: a failure that ends by itself must not be listed.
Otherwise a client stops waiting for a VirtualCluster that is about to become ready.
"""

import re
from typing import NamedTuple

from tenancy import wellknown


class PermanentFailure(NamedTuple):
    """A failure, as the condition of a component reports it."""

    reason: str
    """Reason of the condition, from `wellknown.PERMANENT_REASONS`."""
    remedy: str
    """Change that ends the failure."""


_FAILURES: tuple[tuple[str, PermanentFailure], ...] = (
    (
        # Words of registries, as containerd and CRI-O repeat them. A registry that does not answer,
        # or whose name does not resolve, is not listed.
        (
            r"\bImagePullBackOff\b.*(\bnot found\b|\bmanifest unknown\b|\bname unknown\b"
            r"|\bdoes not exist\b|\bno match for platform\b|\bpull access denied\b"
            r"|\bauthorization failed\b|\bunauthorized\b)"
        ),
        PermanentFailure(
            wellknown.IMAGE_NOT_FOUND, "push the image, or correct its name in the ClusterVersion"
        ),
    ),
    (
        r"\bInvalidImageName\b",
        PermanentFailure(
            wellknown.INVALID_IMAGE_NAME, "correct the name of the image in the ClusterVersion"
        ),
    ),
    (
        r"\bErrImageNeverPull\b",
        PermanentFailure(
            wellknown.IMAGE_NEVER_PULLED,
            "load the image on the node, or correct imagePullPolicy in the ClusterVersion",
        ),
    ),
    (
        r"\bno storage class is set\b",
        PermanentFailure(
            wellknown.NO_STORAGE_CLASS,
            "make a StorageClass of the super cluster the default, or name one in the"
            " ClusterVersion",
        ),
    ),
    (
        r"\bstorageclass\S* \"[^\"]*\" not found\b",
        PermanentFailure(
            wellknown.STORAGE_CLASS_NOT_FOUND,
            "create the StorageClass, or name another one in the ClusterVersion",
        ),
    ),
    (
        r"\bexceeded quota\b",
        PermanentFailure(wellknown.QUOTA_EXCEEDED, "raise the quota, or free a part of it"),
    ),
    (
        r"\bviolates PodSecurity\b",
        PermanentFailure(
            wellknown.POD_SECURITY_VIOLATED, "correct the pod template in the ClusterVersion"
        ),
    ),
)
_COMPILED = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), failure) for pattern, failure in _FAILURES
)


def find_failure(reason: str, message: str) -> PermanentFailure | None:
    """Return the permanent failure of a reason and message. None if it may end by itself."""
    text = f"{reason}: {message}"
    return next((failure for pattern, failure in _COMPILED if pattern.search(text)), None)
