"""Both sides of a key as a state: what the models of `decide` have in common."""

from __future__ import annotations

from dataclasses import dataclass

from syncer.model.decide import Decision, SuperState, TenantState, decide

VC = "vc-1"
"""UID of the VirtualCluster that the keys are of."""


@dataclass(frozen=True)
class Sides:
    """Both sides of a key of a plain kind."""

    tenant_x: TenantState | None
    super_x: SuperState | None
    wanted: bool
    follows_mark: bool

    def decision(self) -> Decision:
        """Return what is to be done about them."""
        return decide(
            self.tenant_x,
            self.super_x,
            vc_uid=VC,
            wanted=self.wanted,
            follows_mark=self.follows_mark,
        )
