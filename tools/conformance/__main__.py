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
from clusterversions import catalog
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


def _build(options: argparse.Namespace) -> None:
    progress = StepPrinter()
    preflight.check_tools(progress)
    suite.build(options.minor, progress)
    for image in images.build(suite.images(options.minor), options.minor, progress):
        print(image.name)


def _list(options: argparse.Namespace) -> None:
    for case in _selected(options):
        print(case.name)


def _run(options: argparse.Namespace) -> int:
    progress = StepPrinter()
    preflight.check_tools(progress)
    wanted = _sides(options)
    suite.build(options.minor, progress)
    cases = _selected(options)
    made = images.build(suite.images(options.minor), options.minor, progress)
    found = sides.cluster(options.super_minor, made, progress)
    try:
        for side in wanted:
            kubeconfig = sides.enter(side, found, progress)
            progress.note(f"{len(cases)} cases on {side.title}")
            plan = _plan(side, cases, options)
            execute = run.executor(options.minor, kubeconfig, sides.environment_of_suite(found))
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
    others = (sides.find(name, side.super_minor, side.super_minor) for name in SIDES)
    times = {name: result.seconds for other in others for name, result in _read(other).items()}
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
    every = suite.cases(options.minor)
    listed = known.of_minor(known.failures(), options.minor)
    wanted = _sides(options)
    control = _read(sides.find("control", options.super_minor, options.super_minor))
    problems = judge.strange(every, listed)
    if not all(side.policy for side in wanted) and len(cases) == len(every):
        problems += [sentence for sentence in (judge.void(cases, control),) if sentence]
    for side in wanted:
        verdict = judge.judge(side.name, cases, _read(side), control if side.policy else {}, listed)
        print(
            f"{side.title}: {verdict.tried} tried, {verdict.passed} passed, "
            f"{len(verdict.excused)} failed and listed, "
            f"{len(verdict.with_control)} failed as on the control, {len(verdict.new)} failed, "
            f"{len(verdict.skipped)} skipped, {len(verdict.missing)} without a result"
        )
        problems += [f"{side.title}: {problem}" for problem in verdict.problems]
    for problem in problems:
        print(problem)
    print(f"machine: {_machine()}; commit {image_python.commit() or 'unknown'}")
    return 1 if problems else 0


def _machine() -> str:
    processors, memory = os.cpu_count(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kernel = platform.release().partition("-")[0]  # without its builder's name
    return f"{processors} cores, {memory / 2**30:.0f} GiB, Linux {kernel}"


def _page(_options: argparse.Namespace) -> None:
    own, *further = versions.load().suites
    listed = known.failures()
    run_of_own = page.PublishedRun(
        version=own.version,
        machine=_machine(),
        cases=suite.cases(own.minor),
        results={name: _read(side) for name, side in SIDES.items()},
        known=known.of_minor(listed, own.minor),
        further=[
            page.FurtherRun(
                version=each.version,
                super_version=below.version,
                cases=suite.cases(each.minor),
                results=results,
                known=known.of_minor(listed, each.minor),
            )
            for each in further
            for below in versions.load().kubernetes
            if (results := _read(sides.find("tenant", each.minor, below.minor)))
        ],
    )
    PAGE.write_text(page.render(run_of_own))
    print(PAGE.relative_to(REPOSITORY))


def _selected(options: argparse.Namespace) -> list[ConformanceCase]:
    cases = suite.cases(options.minor)
    if options.slice:
        cases = chosen(cases, known.slice_names())
    if options.shard is not None:
        cases = cases[options.shard :: COUNT]
    if options.focus:
        cases = [case for case in cases if re.search(options.focus, case.name)]
    return cases[: options.first]


def _sides(options: argparse.Namespace) -> list[SuiteTarget]:
    names = ["control", "tenant"] if options.minor == options.super_minor else ["tenant"]
    wanted = options.sides or names
    return [sides.find(name, options.minor, options.super_minor) for name in wanted]


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
        help="side to run on, can be repeated (default: control, if it has the minor, and tenant)",
    )

    suites = argparse.ArgumentParser(add_help=False)
    suites.add_argument(
        "--minor",
        choices=[each.minor for each in versions.load().suites],
        default=catalog.DEFAULT_MINOR,
        help="minor of the suite and of the tenant (default: %(default)s)",
    )
    clusters = argparse.ArgumentParser(add_help=False)
    clusters.add_argument(
        "--super-minor",
        choices=[each.minor for each in versions.load().kubernetes],
        default=catalog.DEFAULT_MINOR,
        help="minor of the super cluster (default: %(default)s)",
    )

    building = commands.add_parser("build", parents=[suites], help="build the suite and its images")
    building.set_defaults(command=_build)

    listing = commands.add_parser("list", parents=[suites, selection], help="list the cases")
    listing.set_defaults(command=_list)

    running = commands.add_parser(
        "run", parents=[suites, clusters, selection], help="run cases, then judge"
    )
    running.add_argument("--workers", type=int, default=6, help="batches at once")
    running.add_argument("--batch", type=int, default=4, help="cases in a batch")
    running.add_argument(
        "--fresh", action="store_true", help="run them all, whatever they gave earlier"
    )
    running.add_argument("--again", action="store_true", help="run once more what did not pass")
    running.add_argument("--keep", action="store_true", help="leave the cluster up")
    running.set_defaults(command=_run)

    judging = commands.add_parser(
        "judge", parents=[suites, clusters, selection], help="judge the results so far"
    )
    judging.set_defaults(command=_judge)

    paging = commands.add_parser("page", help="write docs/conformance.md from the results")
    paging.set_defaults(command=_page)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
