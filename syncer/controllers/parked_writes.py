"""Report of parked writes in the condition Synced of a VirtualCluster.

Owns the sentence. Must not know kinds. `syncer.safety.guarded_writer` parks writes, and posts an
Event about each.
"""

from syncer.tenants.connection import TenantConnection


def format_parked_message(link: TenantConnection) -> str:
    """Return the sentence about parked writes for the condition. Empty if there are none."""
    parked = link.list_parked()
    if not parked:
        return ""
    part, paths = next(iter(parked.items()))
    key = part.key
    return (
        f" Parked, because writing it changes nothing: {key.kind} {key.namespace}/{key.name}"
        f" {paths}{f', and {len(parked) - 1} more' if len(parked) > 1 else ''}."
    )
