"""Manifests of `spec.addons`, applied in the tenant with the rights of a tenant admin.

Owns the reads and writes. `vcmanager.plan.content.addon_manifests` decides about the text. Hazard:
the manifests of a ConfigMap are applied once for each content of it, also while the tenant refuses
one of them. A repetition would revert what the tenant has changed since.
"""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, Resource
from tenancy.specs import AddonStatus, VirtualCluster
from vcmanager.plan.content import addon_manifests
from vcmanager.plan.content.addon_manifests import AddonObject
from vcmanager.runtime.content_sources import ContentSource
from vcmanager.runtime.context import ReconcileContext

FIELD_MANAGER = f"{wellknown.MANAGER}-addons"
_PLURAL = re.compile(r"[a-z0-9.-]{1,63}")
_MAX_SHOWN_PROBLEMS = 5
_MAX_PROBLEM_CHARACTERS = 400


class AddonResult(NamedTuple):
    """Result of one reconcile."""

    applied: tuple[Mapping[str, Any], ...]
    """`status.addons`: name and digest of each ConfigMap that was applied in full, and the applied
    objects of every other one."""
    problems: tuple[str, ...]


def list_sources(cluster: VirtualCluster) -> frozenset[ContentSource]:
    """Return the ConfigMaps that a VirtualCluster names."""
    namespace = cluster.tenant.namespace
    return frozenset(
        ContentSource(CONFIG_MAPS.kind, namespace, each.name) for each in cluster.spec.addons
    )


async def apply_addons(
    means: ReconcileContext, client: Client, cluster: VirtualCluster
) -> AddonResult:
    """Apply the ConfigMaps whose content was not applied yet. `client` is the tenant's."""
    before = {each.name: each for each in cluster.status.addons}
    kinds = _ServedKinds(client)
    applied: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for addon in cluster.spec.addons:
        name = addon.name
        try:
            found = await means.super_client.get(
                CONFIG_MAPS, name, namespace=cluster.tenant.namespace
            )
        except errors.NotFound:
            problems.append(
                f"spec.addons: ConfigMap {name} does not exist in namespace"
                f" {cluster.tenant.namespace}. Create it, or remove it from spec.addons."
            )
            if name in before:
                applied.append(_build_status(before[name]))
            continue
        digest = addon_manifests.compute_digest(found)
        earlier = before.get(name, AddonStatus(name=name, digest=""))
        if earlier.digest != digest:
            parsed = await asyncio.to_thread(addon_manifests.parse_manifests, found)
            done, failed = await _apply_all(client, kinds, parsed.objects, earlier.objects)
            failed = [*parsed.problems, *failed]
            if failed:
                problems += failed
                if done:
                    applied.append(
                        _build_status(AddonStatus(name=name, digest="", objects=tuple(done)))
                    )
                continue
        applied.append({"name": name, "digest": digest})
    return AddonResult(tuple(applied), _shorten(problems))


def _build_status(found: AddonStatus) -> Mapping[str, Any]:
    objects = {"objects": list(found.objects)} if found.objects else {}
    return {"name": found.name, "digest": found.digest, **objects}


def _shorten(problems: Sequence[str]) -> tuple[str, ...]:
    shown = tuple(each[:_MAX_PROBLEM_CHARACTERS] for each in problems[:_MAX_SHOWN_PROBLEMS])
    rest = len(problems) - len(shown)
    return (*shown, f"There are {rest} more problems.") if rest else shown


async def _apply_all(
    client: Client,
    kinds: "_ServedKinds",
    objects: Sequence[AddonObject],
    earlier: Collection[str],
) -> tuple[list[str], list[str]]:
    """Apply the objects in order, except those with an earlier digest.

    Return the digest of each object that is applied, and the problem of each that the tenant's API
    refused.
    """
    done: list[str] = []
    problems: list[str] = []
    for each in objects:
        digest = addon_manifests.compute_object_digest(each.body)
        if digest in earlier:
            done.append(digest)
            continue
        try:
            resource = await kinds.find(each.body["apiVersion"], each.body["kind"])
            if resource is None:
                problems.append(
                    f"{each.title}: the tenant serves no kind {each.body['kind']} of"
                    f" {each.body['apiVersion']}. Correct apiVersion and kind, or add its"
                    " CustomResourceDefinition."
                )
                continue
            body = addon_manifests.place_object(each.body, is_namespaced=resource.namespaced)
            await client.apply(resource, body, field_manager=FIELD_MANAGER, validation="Strict")
            done.append(digest)
        except errors.ApiError as problem:
            problems.append(f"{each.title}: {_format_refusal(problem)}")
    return done, problems


def _format_refusal(problem: errors.ApiError) -> str:
    """Return the field that the tenant's API refused, and why."""
    causes = [
        f"{cause['field']}: {cause.get('message', '')}"
        for cause in problem.causes
        if cause.get("field")
    ]
    return f"{'; '.join(causes) or problem.server_message}. Correct the manifest."


class _ServedKinds:
    """Kinds that a tenant serves, asked for once in a reconcile."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, list[Mapping[str, Any]]] = {}

    async def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, or None if the tenant does not serve it."""
        group, _, version = api_version.rpartition("/")
        if api_version not in self._known:
            self._known[api_version] = await self._fetch(group, version)
        for each in self._known[api_version]:
            name = str(each.get("name", ""))
            if each.get("kind") == kind and _PLURAL.fullmatch(name):  # and no subresource
                is_namespaced = bool(each.get("namespaced"))
                return Resource(group, version, name, kind, namespaced=is_namespaced)
        return None

    async def _fetch(self, group: str, version: str) -> list[Mapping[str, Any]]:
        probe = Resource(group, version, "", "")
        try:
            answer = await self._client.raw("GET", probe.build_path().rstrip("/"))
        except (errors.NotFound, ValueError):
            return []
        found: Object = orjson.loads(answer)
        listed = found.get("resources")
        return [each for each in listed if isinstance(each, dict)] if listed else []
