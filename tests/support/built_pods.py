"""Allowed fields of a super pod, independent of the tenant's pod: leaves of the table only."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from hypothesis import strategies as st

from syncer.model.field_rules import (
    AllowMap,
    AllowScalar,
    AllowValues,
    BuiltField,
    iterate_leaf_paths,
)
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS, RejectedError, UnschedulableError
from syncer.rules.pods import pod_build
from syncer.rules.pods.pod_build import PodBuildContext
from syncer.rules.pods.pod_fields import POD_SPEC
from tests.support.schemas import STRAY, STRAY_FIELD, SchemaNode, grow

NEVER_WRITTEN = frozenset(
    {
        "spec.ephemeralContainers",
        "spec.nodeName",
        "spec.schedulingGates",
        "spec.setHostnameAsFQDN",
        "spec.volumes[].ephemeral",
    }
)
"""Leaves that a module reads, and makes something else of."""
_METADATA = {"name", "namespace", "labels", "annotations", "ownerReferences"}
_DNS = {"nameservers", "searches", "options"}
_VERDICTS = dict(iterate_leaf_paths(POD_SPEC, "spec"))
PASSED = frozenset(
    path for path, verdict in _VERDICTS.items() if isinstance(verdict, AllowScalar | AllowValues)
)
OPEN = frozenset(
    path for path, verdict in _VERDICTS.items() if isinstance(verdict, AllowMap | BuiltField)
) - set(NEVER_WRITTEN)
"""Leaves with something of their own inside."""


@st.composite
def pods(
    draw: st.DrawFn, spec: SchemaNode, metadata: SchemaNode, *, honest: bool = True
) -> dict[str, Any]:
    """Grow a tenant's pod."""
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "web", "uid": "pod-uid"},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    for _ in range(draw(st.integers(1, 5))):
        grow(draw, spec, pod["spec"], honest=honest)
    if draw(st.booleans()):
        grow(draw, metadata, pod["metadata"], honest=honest)
        pod["metadata"] |= {"name": "p", "namespace": "web", "uid": "pod-uid"}
    return pod


def leaves_of(value: Any, path: str) -> Iterator[str]:
    """Yield the leaves of an object in the spelling of the table, and the empty objects."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves_of(inner, f"{path}.{key}")
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from leaves_of(item, f"{path}[]")
    else:
        yield path


def _is_known(path: str) -> bool:
    if path in PASSED or path in OPEN or any(path.startswith(f"{free}.") for free in OPEN):
        return True
    if any(path.startswith((f"{free}.", f"{free}[")) for free in OPEN):
        return True
    # An object without remaining fields still has a meaning, as `emptyDir: {}` does.
    return any(known.startswith((f"{path}.", f"{path}[]")) for known in PASSED | OPEN)


def _built(pod: Mapping[str, Any], facts: PodBuildContext) -> tuple[Mapping[str, Any] | None, str]:
    """Return the twin, or the reason for none. The reconciler refuses a pod on which code fails."""
    try:
        return pod_build.build_super_pod(pod, facts).pod, ""
    except (RejectedError, UnschedulableError) as rejected:
        return None, str(rejected)
    except MALFORMED_OBJECT_ERRORS as stumble:
        return None, repr(stumble)


def check(pod: Mapping[str, Any], facts: PodBuildContext) -> bool:
    """Build a pod and check that it has only allowed fields. Return whether it was synced."""
    before = copy.deepcopy(pod)
    built, refused = _built(pod, facts)
    assert pod == before, "the tenant's own object was changed"
    if built is None:
        assert refused
        assert facts.tenant.root not in refused
        return False
    assert set(built) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(built["metadata"]) <= _METADATA
    strays = [path for path in leaves_of(built["spec"], "spec") if not _is_known(path)]
    assert strays == []
    assert set(built["spec"].get("dnsConfig") or {}) <= _DNS
    text = orjson.dumps(built).decode()
    assert STRAY not in text
    assert STRAY_FIELD not in text
    return True
