"""The table of what is mutated: each part of the product, and its modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PARTS: Mapping[str, Sequence[str]] = {
    "decide": ("syncer.decide", "syncer.deletion"),
    "names": ("tenancy.names",),
    "ownership": ("tenancy.ownership",),
    "brake": ("syncer.brake", "syncer.fuse"),
    "builder": (
        "syncer.leaves",
        "syncer.translate",
        "syncer.special.pod_build",
        "syncer.special.pod_dns",
        "syncer.special.pod_env",
        "syncer.special.pod_levels",
        "syncer.special.pod_scheduling",
        "syncer.special.pod_size",
        "syncer.special.token_specs",
    ),
}


def part_of(module: str) -> str:
    """Return the part that a module belongs to; raises KeyError when it is of none."""
    for part, modules in PARTS.items():
        if module in modules:
            return part
    raise KeyError(module)
