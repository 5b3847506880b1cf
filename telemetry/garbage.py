"""The collector of reference cycles, set for a process of caches and short-lived objects.

Owns its thresholds. What the caches hold are texts and records that the collector does not look at,
so nearly all that it would go through are dicts that are about to go by themselves. Hazard: cycles
wait longer for their end; nothing that holds a socket or a file may rest on them.
"""

import gc

_YOUNG = 20_000
"""Objects made and not freed before the youngest are gone through; Python's own number is 700."""


def relax() -> None:
    """Look through what is new less often; for the start of a process."""
    gc.set_threshold(_YOUNG, 20, 20)


def settle() -> None:
    """Leave what a start has made alone for good."""
    gc.collect()
    gc.freeze()
