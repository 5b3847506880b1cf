"""The command line: `python -m tools.conformance COMMAND`.

Hazard: exit codes are an interface (0: as it should be, 1: a new failure, a listed case that
passes, or the run broke off).
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Sequence

from bench.programs import image_python
from tests.support.shards import COUNT
from tools.conformance import images, judge, known, page, run, sides, suite
from tools.conformance.cases import ConformanceCase, chosen
from tools.conformance.results import PASSED, CaseResult, ResultStore
from tools.conformance.sides import SIDES, SuiteTarget
from tools.testbed import versions
from tools.testbed.cluster.handle import REPOSITORY
from tools.testbed.errors import TestbedError
from tools.testbed.machine import preflight
from tools.testbed.progress import StepPrinter

PAGE = REPOSITORY / "docs" / "conformance.md"


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except (TestbedError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped. The same command continues from here", file=sys.stderr)
        return 1


def _build(_options: argparse.Namespace) -> None:
    progress = StepPrinter()
    preflight.check_tools(progress)
    suite.build(progress)
    for image in images.build(suite.images(), progress):
        print(image.name)


def _list(options: argparse.Namespace) -> None:
    for case in _selected(options):
        print(case.name)


def _run(options: argparse.Namespace) -> int:
    progress = StepPrinter()
    preflight.check_tools(progress)
    suite.build(progress)
    cases = _selected(options)
    made = images.build(suite.images(), progress)
    found = sides.cluster(made, progress)
    try:
        for name in _sides(options):
            kubeconfig = sides.enter(SIDES[name], found, progress)
            progress.note(f"{len(cases)} cases on {name}")
            plan = _plan(SIDES[name], cases, options)
            execute = run.executor(kubeconfig, sides.environment_of_suite(found))
            run.run(cases, plan, execute, progress.note)
    finally:
        if not options.keep:
            found.down(progress)
    return _judge(options)


def _plan(
    side: SuiteTarget, cases: Sequence[ConformanceCase], options: argparse.Namespace
) -> run.RunPlan:
    store = ResultStore(side.folder / "results.jsonl")
    before, again = store.read(), set[str]()
    if options.fresh:
        store.forget(case.name for case in cases)
    elif options.again:
        again = {name for name, result in before.items() if result.state != PASSED}
    times = {
        name: result.seconds for other in SIDES.values() for name, result in _read(other).items()
    }
    return run.RunPlan(
        store=store,
        logs=side.folder / "logs",
        workers=options.workers,
        size=options.batch,
        seconds={**times, **{name: result.seconds for name, result in before.items()}},
        commit=image_python.commit(),
        again=frozenset(again),
    )


def _judge(options: argparse.Namespace) -> int:
    cases = _selected(options)
    listed = known.failures()
    control = _read(SIDES["control"])
    problems = judge.strange(suite.cases(), listed)
    if "control" in _sides(options) and len(cases) == len(suite.cases()):
        problems += [sentence for sentence in (judge.void(cases, control),) if sentence]
    for name in _sides(options):
        against = {} if name == "control" else control
        verdict = judge.judge(name, cases, _read(SIDES[name]), against, listed)
        print(
            f"{name}: {verdict.tried} tried, {verdict.passed} passed, "
            f"{len(verdict.excused)} failed and listed, "
            f"{len(verdict.with_control)} failed as on the control, {len(verdict.new)} failed, "
            f"{len(verdict.skipped)} skipped, {len(verdict.missing)} without a result"
        )
        problems += [f"{name}: {problem}" for problem in verdict.problems]
    for problem in problems:
        print(problem)
    print(f"machine: {_machine()}; commit {image_python.commit() or 'unknown'}")
    return 1 if problems else 0


def _machine() -> str:
    processors, memory = os.cpu_count(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kernel = platform.release().partition("-")[0]  # without its builder's name
    return f"{processors} cores, {memory / 2**30:.0f} GiB, Linux {kernel}"


def _page(_options: argparse.Namespace) -> None:
    text = page.render(
        page.PublishedRun(
            version=versions.load().kubernetes[0].version,
            machine=_machine(),
            cases=suite.cases(),
            results={name: _read(side) for name, side in SIDES.items()},
            known=known.failures(),
        )
    )
    PAGE.write_text(text)
    print(PAGE.relative_to(REPOSITORY))


def _selected(options: argparse.Namespace) -> list[ConformanceCase]:
    cases = suite.cases()
    if options.slice:
        cases = chosen(cases, known.slice_names())
    if options.shard is not None:
        cases = cases[options.shard :: COUNT]
    if options.focus:
        cases = [case for case in cases if re.search(options.focus, case.name)]
    return cases[: options.first]


def _sides(options: argparse.Namespace) -> list[str]:
    return options.sides or ["control", "tenant"]


def _read(side: SuiteTarget) -> dict[str, CaseResult]:
    return ResultStore(side.folder / "results.jsonl").read()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    selection = argparse.ArgumentParser(add_help=False)
    selection.add_argument("--slice", action="store_true", help="only the cases of slice.yaml")
    selection.add_argument(
        "--shard", type=int, choices=range(COUNT), help="one part of five of them"
    )
    selection.add_argument("--focus", metavar="REGEX", help="only cases whose name has this in it")
    selection.add_argument("--first", type=int, metavar="N", help="only the first N of them")
    selection.add_argument(
        "--side",
        dest="sides",
        action="append",
        choices=list(SIDES),
        help="side to run on, can be repeated (default: control and tenant)",
    )

    building = commands.add_parser("build", help="build the suite and its images")
    building.set_defaults(command=_build)

    listing = commands.add_parser("list", parents=[selection], help="list the cases")
    listing.set_defaults(command=_list)

    running = commands.add_parser("run", parents=[selection], help="run cases, then judge")
    running.add_argument("--workers", type=int, default=6, help="batches at once")
    running.add_argument("--batch", type=int, default=4, help="cases in a batch")
    running.add_argument(
        "--fresh", action="store_true", help="run them all, whatever they gave earlier"
    )
    running.add_argument("--again", action="store_true", help="run once more what did not pass")
    running.add_argument("--keep", action="store_true", help="leave the cluster up")
    running.set_defaults(command=_run)

    judging = commands.add_parser("judge", parents=[selection], help="judge the results so far")
    judging.set_defaults(command=_judge)

    paging = commands.add_parser("page", help="write docs/conformance.md from the results")
    paging.set_defaults(command=_page)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
