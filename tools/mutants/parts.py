"""The table of what is mutated: each part of the product, and its modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PARTS: Mapping[str, Sequence[str]] = {
    "decide": ("syncer.model.decide", "syncer.safety.proven_deletes"),
    "names": ("tenancy.names",),
    "ownership": ("tenancy.ownership",),
    "guards": ("syncer.safety.store_guard", "syncer.safety.hot_loop_guard"),
    "writer": ("syncer.safety.guarded_writer", "syncer.safety.parked_differences"),
    "translation": (
        "syncer.model.field_rules",
        "syncer.model.object_meta",
        "syncer.rules.pods.pod_build",
        "syncer.rules.pods.dns",
        "syncer.rules.pods.environment",
        "syncer.rules.pods.security_levels",
        "syncer.rules.pods.scheduling",
        "syncer.rules.pods.size_limits",
        "syncer.rules.pods.token_specs",
    ),
}


def part_of(module: str) -> str:
    """Return the part that a module belongs to. Raises KeyError if it has none."""
    for part, modules in PARTS.items():
        if module in modules:
            return part
    raise KeyError(module)
