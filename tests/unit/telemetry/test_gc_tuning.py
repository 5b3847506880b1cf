"""Objects of the start are frozen, and the collector skips them."""

import gc
import weakref

from telemetry import gc_tuning


class GarbageCycle:
    """Goes only when someone looks for it."""

    def __init__(self) -> None:
        self.itself = self


def test_a_start_is_left_alone_without_a_look():
    """The longest time for which nothing else is done would be that look."""
    gc.collect()
    seen = weakref.ref(GarbageCycle())
    gc_tuning.freeze_objects()
    try:
        assert gc.get_freeze_count() > 0
        assert gc.get_count()[0] == 0
        assert seen() is not None
        gc.collect()
        assert seen() is not None
    finally:
        gc.unfreeze()
    gc.collect()
    assert seen() is None
