"""Pictures of the measurements, as PNG beside the JSON.

    python -m bench.reports.plots [NAME or FILE ...]

Without a name all of `bench/results` are drawn. Owns the layout. Needs matplotlib, of the
dependency group `bench`. Without it there are no pictures.
"""

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.programs.super_cluster import RESULTS
from bench.reports.panels import BarPanel, panels

PlotFigures = Mapping[str, Any]

_COLUMNS = 3
_COLOUR = "#4477aa"


def write(name: str, results: Mapping[str, Any]) -> None:
    """Write the picture of one program's results beside them."""
    if importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write("no pictures: matplotlib is missing (dependency group `bench`)\n")
        return
    draw(RESULTS / f"{name}.png", results)


def draw(into: Path, results: Mapping[str, Any]) -> bool:
    """Draw a report. Returns whether it has anything to show. Needs matplotlib."""
    import matplotlib as mpl  # noqa: PLC0415 - only where it is there

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    shown, curves = panels(results), _curves(results)
    count = len(shown) + bool(curves)
    if not count:
        return False
    columns = min(_COLUMNS, count)
    height = math.ceil(count / columns)
    tall = 3.0 if any(not each.is_lying for each in shown) else 4.5
    wide = 4.0 if any(not each.is_lying for each in shown) else 7.0
    figure, places = plt.subplots(
        height,
        columns,
        figsize=(wide * columns, tall * height),
        squeeze=False,
        layout="constrained",
    )
    free = list(places.flat)
    if curves:
        place = free.pop(0)
        for way, late in curves.items():
            place.plot([value / 1e3 for value in late], range(101), label=way)
        place.set(title="Ready, % of pods over s", ylim=(0, 100), xlim=(0, None))
        place.legend()
    for panel in shown:
        _bars(free.pop(0), panel)
    for place in free:
        place.axis("off")
    figure.suptitle(f"{into.stem}: median, lowest and highest run")
    figure.savefig(into, dpi=110)
    plt.close(figure)
    return True


def _curves(results: Mapping[str, Any]) -> dict[str, Sequence[float]]:
    """Return of each way the last run's milliseconds at each percent of the pods."""
    runs = results.get("runs")
    if not isinstance(runs, Mapping):
        return {}
    last = {way: found[-1].get("ready_curve_ms") for way, found in runs.items()}
    return {way: found for way, found in last.items() if found}


def _bars(place: Any, panel: BarPanel) -> None:
    """Draw one panel into its place."""
    found = list(panel.bars.values())
    middle = [each.median for each in found]
    apart = [
        [each.median - each.low for each in found],
        [each.high - each.median for each in found],
    ]
    style = {"capsize": 4, "color": _COLOUR}
    if panel.is_lying:
        place.barh(list(panel.bars), middle, xerr=apart, **style)
        place.invert_yaxis()
        place.tick_params(axis="y", labelsize=7)
        place.set(title=panel.title)
    else:
        place.bar(list(panel.bars), middle, yerr=apart, **style)
        place.set(title=panel.title, ylim=(0, None))


def main() -> int:
    """Draw what is named, or everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="of reports, or their files")
    asked = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write("matplotlib is missing: `uv pip install --group bench`\n")
        return 1
    files = [_file(name) for name in asked.names] or sorted(RESULTS.glob("*.json"))
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        sys.stderr.write(f"there is no {', '.join(missing)}\n")
        return 1
    empty = [
        file.name
        for file in files
        if not draw(file.with_suffix(".png"), json.loads(file.read_text()))
    ]
    if empty:
        sys.stderr.write(f"nothing to show in {', '.join(empty)}\n")
    return 1 if empty else 0


def _file(name: str) -> Path:
    path = Path(name)
    return path if path.suffix == ".json" else RESULTS / f"{name}.json"


if __name__ == "__main__":
    sys.exit(main())
