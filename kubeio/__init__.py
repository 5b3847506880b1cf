"""Talk to one Kubernetes API server well: transport, watch, store, queue, worker, lease, events.

Knows Kubernetes, not tenants. Objects that pass through stay dicts or bytes, so that fields this
code has never heard of survive.
"""

from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as it came off the wire; fields we do not know are kept."""
