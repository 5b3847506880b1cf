"""Bindings of a virtual cluster that name one user, and their removal.

Hazard: a user with the role admin can create further bindings for its own name. The removal is
complete only after a list without one, some time after the last delete.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_vc.output.cli_errors import CliError
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.resources import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Resource

_KINDS = (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
_ROUNDS = 10
"""Lists in all, until one has no binding of the user."""
_PAUSE_SECONDS = 0.5
"""Delay in seconds before the next list. The API server learns a deleted binding meanwhile."""
_PAGE_SIZE = 500


@dataclass(slots=True)
class RemovedBindings:
    """Counts of removed bindings."""

    deleted: int = 0
    changed: int = 0
    """Bindings that keep other subjects."""

    @property
    def total(self) -> int:
        """Return the number of all."""
        return self.deleted + self.changed

    def describe(self) -> str:
        """Return the counts as words."""
        text = f"{self.deleted} binding{'' if self.deleted == 1 else 's'} deleted"
        return f"{text}, {self.changed} changed" if self.changed else text


def list_other_subjects(binding: Mapping[str, Any], user: str) -> list[Any] | None:
    """Return the subjects of a binding without a user, or None if it does not name the user."""
    subjects = binding.get("subjects") or []
    others = [each for each in subjects if (each.get("kind"), each.get("name")) != ("User", user)]
    return others if len(others) < len(subjects) else None


async def remove_bindings(tenant_client: Client, user: str) -> RemovedBindings:
    """Remove a user from all bindings. Raises KubeError, and CliError if more keep appearing."""
    removed = RemovedBindings()
    for number in range(_ROUNDS):
        if number:
            await asyncio.sleep(_PAUSE_SECONDS)
        found = [
            (kind, each)
            for kind in _KINDS
            for each in await _list_all(tenant_client, kind)
            if list_other_subjects(each, user) is not None
        ]
        if not found:
            return removed
        for kind, binding in found:
            await _remove_user(tenant_client, kind, binding, user, removed)
    raise CliError(
        f"bindings of the user {user} appear again and again. {removed.describe()} so far. Find the"
        " client that creates them with `kubectl get rolebindings,clusterrolebindings -A -o wide`,"
        " and run the command again."
    )


async def _list_all(client: Client, kind: Resource) -> list[Object]:
    found: list[Object] = []
    token = ""
    while True:
        page = await client.list(kind, limit=_PAGE_SIZE, continue_token=token)
        found += page.get("items") or []
        token = page["metadata"].get("continue") or ""
        if not token:
            return found


async def _remove_user(
    client: Client, kind: Resource, binding: Object, user: str, removed: RemovedBindings
) -> None:
    """Delete a binding, or remove the user from its subjects. The next list sees a failed one."""
    metadata = binding["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    version = {key: metadata[key] for key in ("uid", "resourceVersion")}
    others = list_other_subjects(binding, user)
    try:
        if others:
            body = {"metadata": version, "subjects": others}
            await client.patch(kind, name, body, namespace=namespace, field_manager="kubectl-vc")
            removed.changed += 1
        else:
            await client.delete(
                kind,
                name,
                namespace=namespace,
                uid=version["uid"],
                resource_version=version["resourceVersion"],
            )
            removed.deleted += 1
    except (errors.NotFound, errors.Conflict):
        return
