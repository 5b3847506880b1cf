"""The command line of the testbed: `python -m tools.testbed COMMAND`.

Hazard: exit codes must stay (1: failed, 2: wrong usage). Callers rely on them as an interface.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from tools.testbed import autoscaler, chart, push, targets, versions
from tools.testbed.artifacts import binaries, images, product
from tools.testbed.cluster import leftovers, records
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.errors import TestbedError
from tools.testbed.machine import preflight
from tools.testbed.progress import StepPrinter


def main(arguments: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    options = _parser().parse_args(arguments)
    progress = StepPrinter()
    try:
        return int(options.run(options, progress) or 0)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped. Remove what was made with `down`", file=sys.stderr)
        return 1


def _up(options: argparse.Namespace, progress: StepPrinter) -> None:
    one = ClusterHandle(options.name, options.nodes, options.kubernetes, enforces=options.enforce)
    beside = ClusterHandle(options.beside) if options.beside else None
    if beside is not None and not beside.is_up():
        raise TestbedError(f"there is no cluster {options.beside} to be beside. Start it first")
    one.up(progress)
    if beside is not None:
        one.connect(beside)
    if not options.no_chart:
        chart.install(one, progress)
    progress.note(f"kubeconfig: {one.kubeconfig}")


def _down(options: argparse.Namespace, progress: StepPrinter) -> None:
    for name in records.names() if options.all else [options.name]:
        ClusterHandle(name).down(progress)


def _autoscale(options: argparse.Namespace, progress: StepPrinter) -> None:
    pairs = [label.partition("=") for label in options.label]
    labels = {key: value for key, _, value in pairs}
    print(f"{autoscaler.scale(ClusterHandle(options.name), labels, progress)} joined")


def _build(options: argparse.Namespace, progress: StepPrinter) -> None:
    binaries.build(binaries.programs(options.groups), progress)
    for target in options.targets or ([] if options.groups else ["thorough"]):
        targets.prepare(target, progress)


def _images(_options: argparse.Namespace, progress: StepPrinter) -> None:
    preflight.check_tools(progress)
    targets.prepare("demo", progress)
    made = [*images.build(progress), *images.build_further(progress), *product.build(progress)]
    for image in made:
        size = sum(blob.size for blob in image.blobs)
        print(f"{image.name}\t{image.manifest.digest}\t{size / 1e6:.1f} MB")


def _env(options: argparse.Namespace, _progress: StepPrinter) -> None:
    settings = ClusterHandle(options.name).environment()
    print("export " + " ".join(f"{key}={shlex.quote(value)}" for key, value in settings.items()))


def _push(options: argparse.Namespace, progress: StepPrinter) -> None:
    preflight.check_tools(progress)
    for reference in push.push(options.to, progress):
        print(reference)


def _check_clean(_options: argparse.Namespace, _progress: StepPrinter) -> int:
    left = leftovers.find()
    for line in left:
        print(line)
    print(f"{len(left)} things are left" if left else "nothing is left")
    return 1 if left else 0


def _enter(options: argparse.Namespace, _progress: StepPrinter) -> None:
    pid = ClusterHandle(options.name).pid_of(options.space)
    command = options.command or [os.environ.get("SHELL", "/bin/sh")]
    flags = ["--target", str(pid), "--net", "--mount", "--uts", "--pid"]
    os.execvp("nsenter", ["nsenter", *flags, "--", *command])  # noqa: S606 no shell wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.testbed",
        description="The embedded super cluster: a real Kubernetes on this machine.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="bring a super cluster up")
    up.add_argument("--name", default="super")
    up.add_argument("--nodes", type=int, choices=(1, 2, 3), default=1)
    minors = [entry.minor for entry in versions.load().kubernetes]
    up.add_argument("--kubernetes", choices=minors, default=minors[0], help="its minor")
    up.add_argument(
        "--enforce",
        action=argparse.BooleanOptionalAction,
        help="enforce NetworkPolicies (default: if the kernel has NFQUEUE)",
    )
    up.add_argument("--no-chart", action="store_true", help="an empty cluster")
    up.add_argument("--beside", metavar="NAME", help="a cluster that it and its pods reach")
    up.set_defaults(run=_up)

    scale = commands.add_parser(
        "autoscale", help="join a node for a pod that waits for one, as an autoscaler does"
    )
    scale.add_argument("--name", default="super")
    scale.add_argument("--label", action="append", required=True, metavar="KEY=VALUE")
    scale.set_defaults(run=_autoscale)

    down = commands.add_parser("down", help="remove a super cluster")
    down.add_argument("--name", default="super")
    down.add_argument("--all", action="store_true")
    down.set_defaults(run=_down)

    build = commands.add_parser("build", help="build programs and images that are missing")
    build.add_argument(
        "groups", nargs="*", metavar="GROUP", help=", ".join(binaries.groups_known())
    )
    build.add_argument(
        "--for",
        dest="targets",
        action="append",
        choices=list(targets.TARGETS),
        help="all that a target of the Makefile needs (default: `thorough`)",
    )
    build.set_defaults(run=_build)

    pushing = commands.add_parser("push", help="push our images to a registry")
    pushing.add_argument("--to", required=True, metavar="REGISTRY/PREFIX")
    pushing.set_defaults(run=_push)

    clean = commands.add_parser(
        "check-clean", help="list leftovers of clusters, and fail if there are any"
    )
    clean.set_defaults(run=_check_clean)

    listing = commands.add_parser("images", help="list the images")
    listing.set_defaults(run=_images)

    env = commands.add_parser("env", help="print shell settings for kubectl")
    env.add_argument("name", nargs="?", default="super")
    env.set_defaults(run=_env)

    enter = commands.add_parser("enter", help="run a command in the namespaces of hub or node-N")
    enter.add_argument("name")
    enter.add_argument("space")
    enter.add_argument("command", nargs=argparse.REMAINDER)
    enter.set_defaults(run=_enter)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
