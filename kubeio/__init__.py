"""Client library for one Kubernetes API server.

Contains transport, watch, cache, work queue, workers, leader election and Events. Knows Kubernetes,
not tenants. Objects stay dicts or bytes, so that fields unknown to this code are kept.
"""

from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as it was received. Unknown fields are kept."""
