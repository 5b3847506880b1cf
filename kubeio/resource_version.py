"""Resource versions as numbers.

Owns the one function that reads them. The API servers of Kubernetes use etcd revisions, which grow
with every write. Hazard: the length of the text must be bounded. Otherwise a tenant sends a number
that Python refuses to read.
"""

_MAX_DIGITS = 19
"""Digits of a number of 64 bits."""


def parse_revision(resource_version: str) -> int:
    """Return a resourceVersion as a number; 0 for servers that use something else."""
    text = resource_version
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else 0
