"""`python -m tools.mutants`: mutate, judge, report. Needs the Python that `make mutants` makes.

- `run [--go-on] [--survivors]`: all mutants, the rest of an ended run, or the survivors only
- `judge`: the verdict on the last run, once more
- `survivors`: unlisted survivors, as rows for known.yaml
- `page`: write the figures into docs/reliability.md
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.mutants import known, page, results
from tools.mutants.judge import judge
from tools.mutants.results import Mutant

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    """Run the command. Return 1 if a mutant survived that is not listed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--go-on", action="store_true")
    run.add_argument("--survivors", action="store_true")
    run.add_argument("--children", type=int, default=os.cpu_count() or 1)
    for name in ("judge", "survivors", "page"):
        commands.add_parser(name)
    asked = parser.parse_args(arguments)
    os.chdir(ROOT)
    if asked.command == "run":
        code = _run(asked)
        if code:
            return code
    found = results.read(ROOT / results.FOLDER)
    verdict = judge(found, known.survivors())
    if asked.command == "survivors":
        print(known.rows(verdict.new), end="")
        return 0
    if asked.command == "page":
        page.write(page.render(verdict, known.survivors()))
    print(page.totals(verdict))
    for problem in verdict.problems:
        print(problem, file=sys.stderr)
    return 1 if verdict.problems else 0


def _run(asked: argparse.Namespace) -> int:
    """Run mutmut and return its exit code."""
    names: list[str] = []
    if asked.survivors:
        names = [each.name for each in _survivors()]
        if not names:
            return 0
    elif not asked.go_on:
        shutil.rmtree(ROOT / results.FOLDER, ignore_errors=True)
    mutmut = Path(sys.executable).with_name("mutmut")
    command = [str(mutmut), "run", "--max-children", str(asked.children), *names]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _survivors() -> list[Mutant]:
    listed = {row.place for row in known.survivors()}
    found = results.read(ROOT / results.FOLDER)
    return [each for each in found if each.survived and each.place not in listed]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
