"""Both sides of a key as a state: what the models of `decide` have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from syncer.model.decide import DeleteGrounds, DeleteTwin, SyncAction, decide

VC = "vc-1"
"""UID of the VirtualCluster that the keys are of."""


class TenantState(NamedTuple):
    """Fields of a tenant object that a decision reads."""

    uid: str
    deleting: bool


class TwinState(NamedTuple):
    """Fields of a super object and its record that a decision reads."""

    vc_uid: str
    uid: str
    deleting: bool

    @property
    def entry(self) -> TwinState:
        """The object itself."""
        return self


def decided(tenant_x: TenantState | None, super_x: TwinState | None, **options: Any) -> SyncAction:
    """Return what is to be done about two states."""
    return decide(tenant_x, super_x, **options)  # type: ignore[arg-type]


def outcome(action: SyncAction) -> tuple[type[SyncAction], DeleteGrounds | None]:
    """Return the case of an action, and the grounds of a delete."""
    return type(action), action.grounds if isinstance(action, DeleteTwin) else None


@dataclass(frozen=True)
class Sides:
    """Both sides of a key of a plain kind."""

    tenant_x: TenantState | None
    super_x: TwinState | None
    wanted: bool
    follows_mark: bool

    def decision(self) -> SyncAction:
        """Return what is to be done about them."""
        return decided(
            self.tenant_x,
            self.super_x,
            vc_uid=VC,
            wanted=self.wanted,
            follows_mark=self.follows_mark,
        )
