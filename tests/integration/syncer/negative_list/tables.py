"""Cases made of the verdict tables: one for each leaf that is refused."""

from __future__ import annotations

from collections.abc import Iterator

from kubeio import Object
from syncer.model import field_rules
from syncer.rules import field_rule_tables
from tenancy.resources import PERSISTENT_VOLUMES, PODS
from tests.integration.syncer.negative_list.cases import IMAGE, RefusedCase, of_spec, pod
from tests.integration.syncer.negative_list.leaves import (
    CONTAINER,
    NOT_IN_EPHEMERAL,
    POD,
    VOLUME,
    Fragment,
    RefusedValue,
)


def _place(leaf: str) -> str:
    return leaf.replace("[]", "[0]")


def _rule_of(kind: str, leaf: str) -> str:
    for part in field_rule_tables.DOWNWARD_TABLES[kind]:
        for path, verdict in field_rules.iterate_leaf_paths(part.table, part.path):
            if path == leaf and isinstance(
                verdict, field_rules.RefuseField | field_rules.AllowValues
            ):
                return verdict.rule
    raise AssertionError(f"{kind} {leaf} is refused by no table")


def _containers() -> Iterator[RefusedCase]:
    for at, values in CONTAINER.items():
        for kind in ("containers", "initContainers", "ephemeralContainers"):
            leaf = f"spec.{kind}[].{at}"
            is_ephemeral = kind == "ephemeralContainers"
            yield RefusedCase(
                row=values.row,
                rule=_rule_of("Pod", leaf),
                path=_place(leaf),
                leaf=f"Pod {leaf}",
                resource=PODS,
                bad=_with_container(kind, values, values.bad),
                good=_with_container(kind, values, values.good),
                tenant_api_refuses=is_ephemeral and at.startswith(NOT_IN_EPHEMERAL),
                ephemeral=is_ephemeral,
            )


def _with_container(kind: str, values: RefusedValue, fragment: Fragment) -> Object:
    container = {"name": "main" if kind == "containers" else "more", "image": IMAGE, **fragment}
    if kind == "containers":
        claims = fragment is values.good and "resourceClaims" in values.spec
        return pod({"containers": [container], **({} if claims else values.spec)})
    if kind == "initContainers":
        container["restartPolicy"] = "Always"  # or the API takes no probes
        claims = fragment is values.good and "resourceClaims" in values.spec
        return pod({"initContainers": [container], **({} if claims else values.spec)})
    is_claim = "resourceClaims" in values.spec
    spec = {} if is_claim else values.spec
    return pod({**spec, "ephemeralContainers": [container]})


def _pod_leaves() -> Iterator[RefusedCase]:
    for at, values in POD.items():
        yield RefusedCase(
            row=values.row,
            rule=_rule_of("Pod", f"spec.{at}"),
            path=_place(f"spec.{at}"),
            leaf=f"Pod spec.{at}",
            resource=PODS,
            bad=pod(values.bad),
            good=pod(values.good),
            tenant_api_refuses=values.tenant_api_refuses,
        )


def _volume(spec: Fragment) -> Object:
    return of_spec(
        {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "@namespace", "name": "@name"},
            **spec,
        }
    )


def _volumes() -> Iterator[RefusedCase]:
    for at, values in VOLUME.items():
        yield RefusedCase(
            row=values.row,
            rule=_rule_of("PersistentVolume", f"spec.{at}"),
            path=f"spec.{at}",
            leaf=f"PersistentVolume spec.{at}",
            resource=PERSISTENT_VOLUMES,
            bad=_volume(values.bad),
            good=_volume(values.good),
            tenant_api_refuses=values.tenant_api_refuses,
        )


def cases() -> Iterator[RefusedCase]:
    """Yield them."""
    yield from _containers()
    yield from _pod_leaves()
    yield from _volumes()
