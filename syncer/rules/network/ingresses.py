"""Ingresses: rules and classes to the super cluster, addresses back to the tenant.

Pure. Owns the leaves that are synced, the allowed classes, and the part of the status that is
synced back. Services and Secrets keep their names in the super namespace, so references need no
translation. Must not know how the Secrets are synced.

Hazard: a backend that is no Service, or an annotation that only one controller understands, must
not be synced. An ingress controller of the super cluster serves all tenants and would apply it.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer.model import object_meta
from syncer.model.field_rules import ALLOW, Each, Fields, Refuse, Verdict, Walk, Written
from syncer.model.rejections import Problem, RefusedError, RejectedError
from syncer.model.replace_update import replacement
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import mapping, mappings
from syncer.rules.network import ingress_hosts
from tenancy.policies import EVERY

INGRESS_CLASS = "IngressClass"

_BACKEND = Fields(
    {
        "resource": Refuse("ingress-backend", "is not offered; use a service as backend"),
        "service": Fields({"name": ALLOW, "port": Fields({"name": ALLOW, "number": ALLOW})}),
    }
)

INGRESS_SPEC: Mapping[str, Verdict] = {
    "defaultBackend": _BACKEND,
    "ingressClassName": Written(
        "ingresses",
        "must be a class that your cluster shows. Without a value it is the default class, if every"
        " class is offered",
    ),
    "rules": Each(
        {
            "host": Written(
                "ingress_hosts",
                "must be a host that no other tenant uses, in a domain that is offered to your"
                " cluster",
            ),
            "http": Fields(
                {"paths": Each({"backend": _BACKEND, "path": ALLOW, "pathType": ALLOW})}
            ),
        }
    ),
    "tls": Each({"hosts": ALLOW, "secretName": ALLOW}),
}
INGRESS_STATUS: Mapping[str, Verdict] = {
    "loadBalancer": Fields(
        {
            "ingress": Each(
                {
                    "hostname": ALLOW,
                    "ip": ALLOW,
                    "ports": Each({"error": ALLOW, "port": ALLOW, "protocol": ALLOW}),
                }
            )
        }
    ),
}
"""Fields that are synced back to the tenant."""


def ingress(tenant_ingress: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of an Ingress. Raises RejectedError."""
    if view.policy.sync.ingresses != "Allow":
        text = "is not offered to this cluster; use a Service of another type"
        raise RefusedError(Problem("ingresses", "spec", text))
    metadata, said = tenant_ingress["metadata"], tenant_ingress.get("spec") or {}
    walk = Walk()
    spec = walk.fields(said, INGRESS_SPEC, "spec")
    problems = walk.problems or list(ingress_hosts.malformed(said))
    if problems:
        raise RejectedError(*problems)
    problems = list(ingress_hosts.problems(said, metadata, view))
    if problems:
        raise RefusedError(*problems)
    for rule, own in zip(spec.get("rules") or (), said.get("rules") or (), strict=True):
        if own.get("host"):
            rule["host"] = own["host"]
    name = _class(said.get("ingressClassName"), view)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": object_meta.super_metadata(
            "Ingress",
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
        ),
        "spec": {**spec, "ingressClassName": name} if name else spec,
    }


def _class(name: object, view: TenantView) -> str:
    """Return the class that is synced. Empty leaves the choice to the super cluster's default."""
    if isinstance(name, str) and name and view.shows(INGRESS_CLASS, name):
        return name
    if not name and EVERY in view.policy.sync.ingress_classes.names:
        return ""
    text = "is not offered to this cluster; use one that `kubectl get ingressclasses` shows"
    problem = Problem("ingress-class", "spec.ingressClassName", text)
    if isinstance(name, str) and name and not view.has(INGRESS_CLASS, name):
        raise RejectedError(problem)  # the class may just be recreated
    raise RefusedError(problem)


def change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the Ingress to put in place of the live one, or None.

    A default class that the super cluster assigned stays while the tenant names none.
    """
    given = mapping(live.get("spec")).get("ingressClassName")
    if given and "ingressClassName" not in twin["spec"]:
        twin = {**twin, "spec": {**twin["spec"], "ingressClassName": given}}
    return replacement(live, twin, table=INGRESS_SPEC, at="spec")


def status_up(tenant_ingress: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch of the tenant's status, or None."""
    own = mapping(tenant_ingress.get("status")).get("loadBalancer") or {}
    there = Walk().fields(live.get("status") or {}, INGRESS_STATUS, "status").get("loadBalancer")
    if own == (there or {}):
        return None
    changed = object_meta.merge_patch(mapping(own), there or {})
    return {
        "metadata": {"uid": tenant_ingress["metadata"]["uid"]},
        "status": {"loadBalancer": changed},
    }


def class_of(tenant_ingress: Mapping[str, Any]) -> str:
    """Return the class that an Ingress names. Empty if it names none."""
    name = mapping(tenant_ingress.get("spec")).get("ingressClassName")
    return name if isinstance(name, str) else ""


def secrets_of(tenant_ingress: Mapping[str, Any]) -> frozenset[str]:
    """Return the Secrets that an Ingress names. Empty if it is malformed."""
    found = mappings(mapping(tenant_ingress.get("spec")).get("tls"))
    names = (item.get("secretName") for item in found)
    return frozenset(name for name in names if isinstance(name, str) and name)
