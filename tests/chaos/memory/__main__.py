"""`python -m tests.chaos.memory`: seeds, one seed or script again, or mutants.

    --seeds N [--from SEED] [--minutes M]   so many seeds, or as many as the time allows
    --replay FILE                           a script that failed, with its trace
    --mutants [NAME ...]                    the product broken on purpose, until that is found
    --witness NAME ...                      these, each with the script that is known to find it

Prints what was tried, failed and skipped, the seeds, and the machine. A seed that fails is cut down
to the steps that it needs, and written to a file that `--replay` takes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos import mutants, scripts
from tests.chaos.memory.run import LENGTH, RunOutcome, run, shrunk, silence

HASHES = "PYTHONHASHSEED"
WITNESSES = Path(__file__).parent / "witnesses.json"
MUTANT_SEEDS = 300
_PROGRESS_SEEDS = 500
"""Seeds between two lines of progress."""
_TWICE = 50  # of so many seeds one is run twice, and must be the same to the last byte


def main(arguments: Sequence[str]) -> int:
    """Run the selected scripts. Return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.memory")
    add = parser.add_argument
    add("--seeds", type=int, default=100, help="how many")
    add("--from", dest="first", type=int, default=None, help="the first seed, else a random one")
    add("--minutes", type=float, default=0.0, help="stop after so many")
    add("--length", type=int, default=LENGTH, help="steps of a script")
    add("--replay", type=Path, help="run the script of a file")
    add("--mutants", nargs="*", metavar="NAME", help="break the product, all ways or these")
    add("--witness", nargs="+", metavar="NAME", help="break it so, run what finds it")
    add("--failures", type=int, default=5, help="stop after so many")
    add("--folder", type=Path, default=Path(), help="where scripts that fail are written")
    asked = parser.parse_args(arguments)
    silence()
    if asked.replay is not None:
        return _replay(asked.replay)
    if asked.mutants is not None:
        return _mutants(asked.mutants or list(mutants.MUTANTS), asked.seeds or MUTANT_SEEDS)
    if asked.witness is not None:
        return max([_witness(name) for name in asked.witness])
    first = secrets.randbits(31) if asked.first is None else asked.first
    return _seeds(asked, first)


def _seeds(asked: argparse.Namespace, first: int) -> int:
    began, worked = time.monotonic(), time.process_time()
    total: Counter[str] = Counter()
    for seed in range(first, first + asked.seeds):
        if asked.minutes and time.monotonic() - began > 60 * asked.minutes:
            break
        found = run(seed, length=asked.length)
        total.update(
            seeds=1,
            steps=len(found.script),
            requests=found.requests,
            faults=found.befallen,
            restores=found.restores,
            starts=found.starts,
            blind=found.blind,
            virtual=int(found.seconds),
        )
        if total["seeds"] % _PROGRESS_SEEDS == 0:
            print(f"{total['seeds']:,} seeds: {total['failed']} failed", flush=True)
        if total["seeds"] % _TWICE == 1:
            total["twice"] += 1
            if run(seed, length=asked.length).digest != found.digest:
                total["failed"] += 1
                print(f"seed {seed} runs differently when it is run again", flush=True)
        if found.breaks:
            total["failed"] += 1
            _tell(found, asked.folder)
            if total["failed"] >= asked.failures:
                break
    took = time.monotonic() - began
    tried = total["seeds"]
    print(
        f"{tried:,} seeds from {first}, {total['steps']:,} steps: {total['failed']} failed,"
        f" {asked.seeds - tried:,} not tried; {total['twice']} run twice\n"
        f"{total['requests']:,} requests, {total['faults']:,} faults,"
        f" {total['restores']:,} restores, {total['starts']:,} starts of a process,"
        f" {total['virtual'] / 3600:.1f} virtual hours, {total['blind']} watches went blind\n"
        f"{took:.0f} s, {time.process_time() - worked:.0f} of them of the processor, on"
        f" {platform.machine()} with {os.cpu_count()} processors,"
        f" Python {platform.python_version()}"
    )
    return 1 if total["failed"] or not tried else 0


def _tell(found: RunOutcome, folder: Path) -> None:
    print(f"seed {found.seed} failed: {found.breaks[0].rule}: {found.breaks[0].text}", flush=True)
    least = shrunk(found)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"machine-{found.seed}.json"
    path.write_text(json.dumps({"seed": found.seed, "script": scripts.dump(least.script)}))
    for step in least.script:
        print(f"  {step.name} {step.numbers} and then {step.pause} s")
    print(f"  {least.breaks[0].rule}: {least.breaks[0].text}\n  --replay {path}", flush=True)


def _replay(path: Path) -> int:
    told = json.loads(path.read_text())
    found = run(told["seed"], scripts.load(told["script"]))
    print("\n".join(found.trace))
    for each in found.breaks:
        print(f"{each.rule}: {each.text}")
    return 1 if found.breaks else 0


def _witness(name: str) -> int:
    """Run a script on the product as it is, and broken in the way that the script finds."""
    told = json.loads(WITNESSES.read_text())[name]
    script = scripts.load(told["script"])
    sound = run(told["seed"], script)
    with mutants.broken(name):
        broken = run(told["seed"], script)
    for outcome, what in ((sound, "sound"), (broken, "broken")):
        print(f"{name}: {what}: {outcome.breaks[0] if outcome.breaks else 'nothing is found'}")
    return 0 if broken.breaks and not sound.breaks else 1


def _mutants(names: Sequence[str], most: int) -> int:
    left = 0
    for name in names:
        began, found = time.monotonic(), ""
        with mutants.broken(name):
            for seed in range(most):
                outcome = run(seed)
                if outcome.breaks:
                    found = f"found by seed {seed}: {outcome.breaks[0].rule}"
                    break
        left += not found
        told = found or f"NOT FOUND by {most} seeds"
        print(f"{name}: {told} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{len(names)} mutants, {len(names) - left} found")
    return 1 if left else 0


if __name__ == "__main__":
    if os.environ.get(HASHES) != "0":  # sets of words have an order of their own in each process
        os.environ[HASHES] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.memory", *sys.argv[1:]])  # noqa: S606 - itself
    sys.exit(main(sys.argv[1:]))
