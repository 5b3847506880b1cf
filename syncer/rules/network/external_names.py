"""External names of Services, translated so that every resolver in the super cluster agrees.

Pure. No component of the super cluster serves such a Service. An Ingress controller may still
resolve its name, with the DNS of the super cluster.

Hazard: a name in the domain of either cluster must be translated. Otherwise it resolves to a
Service in a namespace of another owner.

Hazard: a synced name must end with a dot. Otherwise the search list of the resolving client can
lead to a namespace of another owner.
"""

import re
from collections.abc import Mapping
from typing import Any

from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView

_FIELD_PATH = "spec.externalName"
_SERVICE_LABELS = 3  # name, namespace, svc
_NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")


def translate_name(
    spec: Mapping[str, Any], view: TenantView
) -> tuple[str, RejectionProblem | None]:
    """Return the name that is synced, or the problem with it."""
    name = spec.get("externalName")
    if not name:
        return "", None
    if not isinstance(name, str):
        return "", RejectionProblem("malformed", _FIELD_PATH, "must be a name. Correct the object")
    labels = name.lower().removesuffix(".").split(".")
    inner = _split_within_domain(labels, view.spec.cluster_domain)
    if inner is None and labels[-1] == "svc":
        inner = labels
    if inner is not None:
        if len(inner) != _SERVICE_LABELS or inner[-1] != "svc":
            text = "must be <service>.<namespace>.svc inside this cluster. Use such a name"
            return "", RejectionProblem("external-name", _FIELD_PATH, text)
        return f"{inner[0]}.{view.get_super_namespace(inner[1])}.svc.{view.super_domain}.", None
    return f"{'.'.join(labels)}.", _check_outside_name(labels, view)


def _split_within_domain(labels: list[str], domain: str) -> list[str] | None:
    """Return a name within a domain. None if it is not in that domain."""
    last = domain.lower().strip(".").split(".")
    return labels[: -len(last)] if labels[-len(last) :] == last else None


def _check_outside_name(labels: list[str], view: TenantView) -> RejectionProblem | None:
    """Return the problem with a name outside of the cluster, or None."""
    text = ""
    if not all(labels):
        text = "must be a name without empty parts. Correct the object"
    elif len(labels) == 1:
        text = "must be a full name, not a single word. Write it with its domain"
    elif _NUMBER_PATTERN.fullmatch(labels[-1]):
        text = "must not end like an address. Use a name outside"
    elif _split_within_domain(labels, view.super_domain) is not None:
        text = "is in a domain that is reserved for the super cluster. Use a name outside"
    return RejectionProblem("external-name", _FIELD_PATH, text) if text else None
