"""Cases of storage, configuration, tokens and disruption budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeio import Object
from tenancy import names
from tenancy.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
)
from tests.integration.syncer.negative_list.cases import CLASS, RefusedCase, of_spec, pod

_PLAIN = {"app": "x"}


def _claim(**spec: Any) -> Object:
    return of_spec(
        {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": CLASS,
            **spec,
        }
    )


def _claims() -> Iterator[RefusedCase]:
    def of_claim(row: str, rule: str, path: str, bad: Object, **more: Any) -> RefusedCase:
        return RefusedCase(
            row=f"2c {row}",
            rule=rule,
            path=path,
            resource=PERSISTENT_VOLUME_CLAIMS,
            bad=bad,
            good=_claim(),
            **more,
        )

    for name in ("not-offered", ""):
        yield of_claim(
            "PVC storageClassName",
            "storage-class",
            "spec.storageClassName",
            _claim(storageClassName=name),
        )
    yield of_claim(
        "PVC storageClassName",
        "volume-attributes-class",
        "spec.volumeAttributesClassName",
        _claim(volumeAttributesClassName="gold"),
    )
    row = "PVC volumeName, selector, binder annotations"
    yield of_claim(row, "volume-name", "spec.volumeName", _claim(volumeName="of-somebody"))
    yield of_claim(
        row,
        "volume-selector",
        "spec.selector",
        _claim(selector={"matchLabels": _PLAIN}),
        leaf="PersistentVolumeClaim spec.selector",
    )
    row, source = "PVC dataSource, dataSourceRef", {"kind": "PersistentVolumeClaim", "name": "c"}
    yield of_claim(
        row,
        "data-source",
        "spec.dataSourceRef.kind",
        _claim(dataSourceRef={"apiGroup": "example.com", "kind": "Image", "name": "i"}),
    )
    yield of_claim(
        row,
        "data-source-namespace",
        "spec.dataSourceRef.namespace",
        _claim(dataSourceRef={**source, "namespace": "kube-system"}),
    )


def _token(**source: Any) -> Object:
    token = {"serviceAccountToken": {"path": "t", **source}}
    return {"volumes": [{"name": "v", "projected": {"sources": [token]}}]}


def _others() -> Iterator[RefusedCase]:
    data: Object = {"metadata": {"name": "@name"}, "data": {"a": "MQ=="}}
    token = f"{names.TOKEN_SECRET_PREFIX}forged"
    yield RefusedCase(
        row="2c ConfigMap",
        rule="reserved-name",
        path="metadata.name",
        resource=CONFIG_MAPS,
        name=names.SUPER_ROOT_CA,
        bad=data,
        good=data,
        mounted="configMap",
    )
    yield RefusedCase(
        row="2c Secret",
        rule="reserved-name",
        path="metadata.name",
        resource=SECRETS,
        name=token,
        bad=data,
        good=data,
        mounted="secret",
    )
    yield RefusedCase(
        row="2c Secret",
        rule="secret-type",
        path="type",
        resource=SECRETS,
        name="bootstrap-token",
        bad={**data, "type": "bootstrap.kubernetes.io/token"},
        good=data,
        mounted="secret",
    )
    yield RefusedCase(
        row="2c token requests",
        rule="token-audience",
        path="spec.volumes[0].projected.sources[0].serviceAccountToken.audience",
        resource=PODS,
        bad=pod(_token(audience="a" * 270_000)),
        good=pod(_token(audience="https://example.com")),
    )
    seen: Object = {"observedGeneration": 1, "desiredHealthy": 1}
    counts = {"currentHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1}
    plain = of_spec({"minAvailable": 1, "selector": {"matchLabels": _PLAIN}})
    yield RefusedCase(
        row="2c PodDisruptionBudget",
        rule="disruption-budgets",
        path="spec",
        resource=POD_DISRUPTION_BUDGETS,
        bad=plain,
        good=plain,
        status={**seen, **counts},
        tight=True,
    )
    at = "spec.selector.matchExpressions[].operator"
    near = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    yield RefusedCase(
        row="2c PodDisruptionBudget",
        rule="malformed",
        path=at.replace("[]", "[0]"),
        resource=POD_DISRUPTION_BUDGETS,
        bad=of_spec({"minAvailable": 1, "selector": near}),
        good=of_spec({"minAvailable": 1, "selector": {"matchLabels": _PLAIN}}),
        status={**seen, **counts},
        leaf=f"PodDisruptionBudget {at}",
        tenant_api_refuses=True,
    )


def cases() -> Iterator[RefusedCase]:
    """Yield them."""
    yield from _claims()
    yield from _others()
