"""The collector of reference cycles, set for a process of caches and short-lived objects.

Owns its thresholds. What the caches hold are texts and records that the collector does not look at,
so nearly all that it would go through are dicts that are about to go by themselves. Hazard: cycles
wait longer for their end; nothing that holds a socket or a file may rest on them.
"""

import gc

_YOUNG = 5_000
"""Objects made and not freed before the youngest are gone through; Python's own number is 700.

That takes up to half a millisecond; of four times as many, up to three and a half at once.
"""
_MIDDLE, _OLD = 20, 80
"""How often before what stayed is gone through as well; all of it takes a fraction of a second."""


def relax() -> None:
    """Look through what is new less often; for the start of a process."""
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def settle() -> None:
    """Leave what a start has made alone for good.

    What is garbage of it by then stays as well, be it a socket of a connection that failed: to
    look for that would hold everything up for a fraction of a second.
    """
    gc.freeze()
