"""Every leaf that an API server knows has a verdict: a new minor cannot slip a field through."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from clusterversions import catalog
from kubeio.api.client import Client
from kubeio.http.rest import ClientOptions
from syncer.model.field_rules import (
    AllowMap,
    AllowScalar,
    AllowValues,
    DropField,
    FieldRule,
    ListOfObjects,
    ObjectFields,
)
from syncer.rules import field_rule_tables
from tests.support.controlplane import LocalControlPlane, running

pytestmark = pytest.mark.thorough

MINORS = catalog.list_minors()
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers", "ephemeralContainers[]")
_IN_CONTAINERS_1_37 = (
    *(f"{each}Probe.grpc.mode" for each in ("liveness", "readiness", "startup")),
    *(f"{each}Probe.httpGet.protocol" for each in ("liveness", "readiness", "startup")),
    *(f"lifecycle.{each}.httpGet.protocol" for each in ("postStart", "preStop")),
    "volumeMounts.bindMountOptions",
)
_SOURCES = ("configMap", "downwardAPI", "secret")
_IN_VOLUMES_1_37 = (
    "emptyDir.mode",
    *(f"{each}.defaultUser" for each in (*_SOURCES, "projected")),
    *(f"{each}.items.user" for each in _SOURCES),
    *(f"projected.sources.{each}.items.user" for each in _SOURCES),
    *(
        f"projected.sources.{each}.user"
        for each in ("clusterTrustBundle", "podCertificate", "serviceAccountToken")
    ),
)
ADDED = {
    "1.36": {"spec.schedulingGroup"},
    "1.37": {
        "spec.evictionResponders",
        *(f"spec.{each}.{leaf}" for each in _CONTAINERS for leaf in _IN_CONTAINERS_1_37),
        *(f"spec.volumes.{leaf}" for leaf in _IN_VOLUMES_1_37),
        "status.healthStatus",
    },
}
"""Leaves, of whatever kind, that a minor has and the one before has not."""
REMOVED = {"1.36": {"spec.workloadRef"}, "1.37": set[str]()}
"""Leaves that a minor has not and the one before has."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    """The schemas that real API servers publish, by minor."""

    async def fetch(minor: str) -> Mapping[str, Any]:
        plane = LocalControlPlane(tmp_path_factory.mktemp(f"census-{minor}"), minor=minor)
        async with running(plane), Client(plane.endpoint, ClientOptions(deadline=60)) as client:
            assert (await client.version()).startswith(f"v{minor}.")
            return orjson.loads(await client.raw("GET", "/openapi/v2"))["definitions"]

    return {minor: asyncio.run(fetch(minor)) for minor in MINORS}


@pytest.fixture(params=MINORS)
def definitions(
    request: pytest.FixtureRequest, published: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The schema of one minor."""
    return published[request.param]


def without_verdict(
    definitions: Mapping[str, Any], name: str, table: Mapping[str, FieldRule], path: str
) -> Iterator[str]:
    """Yield the paths that the schema has and the table lacks, or treats as another shape."""
    for field, schema in definitions[name].get("properties", {}).items():
        where = f"{path}.{field}"
        verdict = table.get(field)
        if verdict is None:
            yield f"{where}: no verdict"
            continue
        inner = _reference(schema.get("items", schema))
        properties = definitions[inner].get("properties") if inner else None
        if isinstance(verdict, ObjectFields | ListOfObjects):
            if isinstance(verdict, ListOfObjects) != (schema.get("type") == "array"):
                yield f"{where}: another shape"
            elif properties is None:
                yield f"{where}: no object"
            else:
                yield from without_verdict(definitions, inner, verdict.fields, where)
        elif isinstance(verdict, AllowScalar | AllowValues) and properties is not None:
            yield f"{where}: an object that is let through as a whole"
        elif isinstance(verdict, AllowMap) and "additionalProperties" not in schema:
            yield f"{where}: no free map"


def _reference(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/definitions/")


PARTS = [
    pytest.param(part, id=f"{kind}-{part.path or 'object'}")
    for tables in (field_rule_tables.DOWNWARD_TABLES, field_rule_tables.UPWARD_TABLES)
    for kind, parts in tables.items()
    for part in parts
]


def covered(part: field_rule_tables.RuleTable) -> Mapping[str, FieldRule]:
    """Return a table. A whole object's head has rules of its own."""
    head = dict.fromkeys(
        ("apiVersion", "kind", "metadata"), DropField("the head has its own rules")
    )
    return part.table if part.path else {**head, **part.table}


@pytest.mark.parametrize("part", PARTS)
def test_every_leaf_has_a_verdict(definitions, part):
    assert list(without_verdict(definitions, part.schema, covered(part), part.path)) == []


@pytest.mark.parametrize("part", PARTS)
def test_the_census_finds_a_leaf_without_one(definitions, part):
    found = list(without_verdict(definitions, part.schema, {}, part.path))
    assert len(found) == len(definitions[part.schema]["properties"])


def leaves(definitions: Mapping[str, Any], name: str, path: str) -> Iterator[str]:
    """Yield every path of a definition, those of objects included."""
    for field, schema in definitions[name].get("properties", {}).items():
        where = f"{path}.{field}".lstrip(".")
        yield where
        inner = _reference(schema.get("items", schema))
        if inner and definitions[inner].get("properties"):
            yield from leaves(definitions, inner, where)


def test_the_minors_differ_in_these_leaves(published):
    found: dict[str, set[str]] = {}
    for minor, definitions in published.items():
        parts = [part.values[0] for part in PARTS]
        found[minor] = {
            where
            for part in parts
            for where in leaves(definitions, part.schema, part.path)
            if not where.startswith("metadata.")
        }
    for older, newer in itertools.pairwise(MINORS):
        assert topmost(found[newer] - found[older]) == ADDED[newer]
        assert topmost(found[older] - found[newer]) == REMOVED[newer]


def topmost(paths: set[str]) -> set[str]:
    """Return the paths without those that are inside another one."""
    return {where for where in paths if where.rpartition(".")[0] not in paths}
