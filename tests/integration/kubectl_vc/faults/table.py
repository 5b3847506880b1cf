"""Form of the tables of faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from tests.integration.kubectl_vc.faults.world import FaultWorld

Plant = Callable[[FaultWorld], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One row: a fault, and the layer that a person must read first."""

    name: str
    layer: str
    plant: Plant
    verb: Literal["why", "doctor", "doctor NAME"] = "why"
    wanted: str = "pod/web"
    """Object that `why` is asked about."""
    tenant_layer: str = ""
    """Layer that the tenant must read. Empty if the tenant cannot know it."""
