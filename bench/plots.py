"""Pictures of what was measured, as PNG beside the JSON.

Owns the layout. Needs matplotlib, of the dependency group `bench`; without it there are no
pictures and everything else is as it is.
"""

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import Spread, spread
from bench.report import FELT, Read
from bench.rig import RESULTS

Figures = Mapping[str, Any]


def write(name: str, results: Mapping[str, Any]) -> None:
    """Write the pictures of one program's results."""
    if importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write("no pictures: matplotlib is missing (dependency group `bench`)\n")
        return
    import matplotlib as mpl  # noqa: PLC0415 - only where it is there

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    runs: Mapping[str, Sequence[Figures]] = results["runs"]
    bars = [
        (title, values)
        for title, read in FELT
        if (values := _compared(runs, read)) and len(values) > 1
    ]
    curves = {way: found[-1].get("ready_curve_ms") or () for way, found in runs.items()}
    panels = len(bars) + any(curves.values())
    if not panels:
        return
    columns = min(3, panels)
    height = math.ceil(panels / columns)
    figure, places = plt.subplots(
        height, columns, figsize=(4 * columns, 3 * height), squeeze=False, layout="constrained"
    )
    free = list(places.flat)
    if any(curves.values()):
        place = free.pop(0)
        for way, late in curves.items():
            if late:
                place.plot([value / 1e3 for value in late], range(101), label=way)
        place.set(title="Ready, % of pods over s", ylim=(0, 100), xlim=(0, None))
        place.legend()
    for title, values in bars:
        place = free.pop(0)
        found = list(values.values())
        middle = [each.median for each in found]
        low = [each.median - each.low for each in found]
        high = [each.high - each.median for each in found]
        place.bar(list(values), middle, yerr=[low, high], capsize=6, color="#4477aa")
        place.set(title=title, ylim=(0, None))
    for place in free:
        place.axis("off")
    figure.suptitle(f"{name}: median, lowest and highest run")
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def _compared(runs: Mapping[str, Sequence[Figures]], read: Read) -> dict[str, Spread]:
    """Return a figure of each way that has it and is not free of it."""
    every = {way: spread(map(read, found)) for way, found in runs.items()}
    return {way: found for way, found in every.items() if found.count and found.median}
