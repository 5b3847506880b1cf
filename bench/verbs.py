"""Time of `kubectl vc` beside kubectl: the help of each verb, and calls of a real API server.

    python -m bench.verbs --rounds 15 --tenants 20 --pods 400

Every round runs each command once, and the command of kubectl directly before it, so that both see
the same machine. A call stands beside a kubectl command that reads the same objects. `kubectl vc`
starts as users start it: kubectl finds the program `kubectl-vc` and runs it. The own time is the
time of that program started directly. Prints medians and ratios, the shortest own time and the
processor time, and writes JSON to `bench/results/verbs.json`. With `--imports` it prints the
modules that take longest to import.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.pages import stage
from bench.programs import image_python, super_cluster
from bench.programs.super_cluster import ROOT
from bench.reports.statistics import quantile
from kubectl_vc.app import app
from tenancy import wellknown
from tenancy.ownership import Tenant
from tests.support.controlplane import LocalControlPlane
from tools.testbed.artifacts import binaries

REPORT = "verbs"
HELP_GOAL_MS = 150.0
"""Goal for the help of a verb in ms."""
CALL_GOAL_MS = 300.0
"""Goal for the own time of a call in ms."""
_SLOW_IMPORTS = 12
_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: main, image: busybox}
"""


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """A command of `kubectl vc`, and the one of kubectl that stands beside it."""

    words: tuple[str, ...]
    beside: tuple[str, ...]
    goal_ms: float
    exit_code: int = 0
    """Exit code of the command of `kubectl vc`."""

    @property
    def name(self) -> str:
        """Return the command as a user types it, without the names of objects."""
        return " ".join(self.words)


def list_helps() -> list[TimedCommand]:
    """Return the help of each verb and of the program."""
    verbs: list[tuple[str, ...]] = [(), *(words for words, _ in app.iterate_verbs())]
    return [TimedCommand((*each, "--help"), ("--help",), HELP_GOAL_MS) for each in verbs]


def list_calls(tenant: Tenant, pod_file: Path) -> list[TimedCommand]:
    """Return calls that read objects, each beside a read of the same objects by kubectl."""
    place = ("-n", tenant.namespace)
    of_tenant = ("get", "virtualcluster", tenant.name, *place, "-o", "yaml")
    table = ("get", "configmap", wellknown.CERTIFICATES, "-n", tenant.root, "-o", "yaml")
    copy = ("get", "pod", "p-00000", "-n", stage.super_space(tenant), "-o", "yaml")
    secret = ("get", "secret", "admin-kubeconfig", "-n", tenant.root, "-o", "yaml")
    pairs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
        (("list", "-A"), ("get", "virtualclusters", "-A")),
        (("get", tenant.name, *place), of_tenant),
        (("describe", tenant.name, *place), of_tenant),
        (("certs", "list", tenant.name, *place), table),
        (("events", tenant.name, *place), ("get", "events", "-n", tenant.root)),
        (("kubeconfig", tenant.name, *place), secret),
        (("snapshot", "list", *place), ("get", "virtualclustersnapshots", *place)),
        (("target", "list"), ("get", "superclusters")),
        (
            ("why", "pod/p-00000", "-n", stage.SPACE, "--vc", f"{tenant.namespace}/{tenant.name}"),
            copy,
        ),
        (("policy", "check", "-f", str(pod_file)), ("version", "--client")),
        (
            ("policy", "check", "-f", str(pod_file), "--vc", f"{tenant.namespace}/{tenant.name}"),
            of_tenant,
        ),
    )
    return [
        *(TimedCommand(words, beside, CALL_GOAL_MS) for words, beside in pairs),
        # No component runs there, so the first check fails after all objects were read.
        TimedCommand(("doctor",), ("get", "deployments", "-A"), CALL_GOAL_MS, exit_code=1),
    ]


@dataclass(frozen=True, slots=True)
class CommandTime:
    """Time of one run of a command."""

    ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class CommandTimer:
    """Runs commands with one environment, and measures them."""

    environment: Mapping[str, str]

    def time(self, *command: str, exit_code: int = 0) -> CommandTime:
        """Return the time of a command. Raises SystemExit if it has another exit code."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.perf_counter()
        done = subprocess.run(
            command, env=dict(self.environment), capture_output=True, text=True, check=False
        )
        spent = 1000 * (time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != exit_code:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return CommandTime(spent, 1000 * cpu)

    def measure(self, commands: Sequence[TimedCommand], rounds: int) -> list[dict[str, Any]]:
        """Return the times of all commands, in turns."""
        ways = ("kubectl", "kubectl vc", "own")
        found: dict[str, dict[str, list[CommandTime]]] = {
            each.name: {way: [] for way in ways} for each in commands
        }
        for number in range(rounds + 1):
            for each in commands:
                times = (
                    self.time("kubectl", *each.beside),
                    self.time("kubectl", "vc", *each.words, exit_code=each.exit_code),
                    self.time("kubectl-vc", *each.words, exit_code=each.exit_code),
                )
                if number:  # the first round fills the caches of files and of discovery
                    for way, spent in zip(ways, times, strict=True):
                        found[each.name][way].append(spent)
        return [_summarize(each, found[each.name]) for each in commands]


def _summarize(command: TimedCommand, times: Mapping[str, Sequence[CommandTime]]) -> dict[str, Any]:
    """Return medians in ms, the ratio to kubectl, and whether the goal is kept."""
    median = {way: quantile([each.ms for each in found], 0.5) for way, found in times.items()}
    cpu = {way: quantile([each.cpu_ms for each in found], 0.5) for way, found in times.items()}
    return {
        "command": command.name,
        "beside": " ".join(("kubectl", *command.beside)),
        "kubectl_ms": round(median["kubectl"], 1),
        "kubectl_vc_ms": round(median["kubectl vc"], 1),
        "own_ms": round(median["own"], 1),
        "own_best_ms": round(min(each.ms for each in times["own"]), 1),
        "kubectl_cpu_ms": round(cpu["kubectl"], 1),
        "own_cpu_ms": round(cpu["own"], 1),
        "ratio": round(median["kubectl vc"] / median["kubectl"], 2),
        "goal_ms": command.goal_ms,
        "is_kept": median["own"] <= command.goal_ms,
    }


def run(asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Measure helps and calls against an API server that is furnished."""
    plane = LocalControlPlane(folder / "plane", name="super")
    with asyncio.Runner() as runner:
        try:
            runner.run(plane.start())
            first = runner.run(stage.furnish(plane, asked.tenants, asked.pods))
            return _measure(asked, folder, plane.kubeconfig(), first)
        finally:
            runner.run(plane.stop())


def _measure(
    asked: argparse.Namespace, folder: Path, access: bytes, first: Tenant
) -> list[dict[str, Any]]:
    """Measure all commands with a kubeconfig of the super cluster."""
    kubeconfig, pod_file = folder / "kubeconfig", folder / "pod.yaml"
    kubeconfig.write_bytes(access)
    pod_file.write_text(_POD)
    timer = CommandTimer(_build_environment(folder, kubeconfig))
    commands = [*list_helps(), *list_calls(first, pod_file)]
    if asked.imports:
        _print_imports(timer.environment, commands)
    found = timer.measure(commands, asked.rounds)
    # A report has no names of a temporary folder and no hashes of one run.
    names = {f"{folder}/": "", stage.super_space(first): "SUPER", first.root: "ROOT"}
    for each in found:
        for key in ("command", "beside"):
            for name, general in names.items():
                each[key] = each[key].replace(name, general)
    return found


def _build_environment(folder: Path, kubeconfig: Path) -> dict[str, str]:
    """Return the environment of a user whose kubectl is that of the testbed."""
    folders = (binaries.path("kubectl").parent, Path(sys.executable).parent)
    return {
        **os.environ,
        "HOME": str(folder),
        "KUBECONFIG": str(kubeconfig),
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
    }


def _print_imports(environment: Mapping[str, str], commands: Sequence[TimedCommand]) -> None:
    """Print the modules with the largest own time of import for each call."""
    script = "import sys; from kubectl_vc.app import main; main()"
    for each in commands:
        words = [sys.executable, "-X", "importtime", "-c", script, *each.words]
        done = subprocess.run(
            words, env=dict(environment), capture_output=True, text=True, check=False
        )
        rows = [
            (int(parts[0]), parts[2].strip())
            for line in done.stderr.splitlines()
            if line.startswith("import time:")
            and (parts := line.removeprefix("import time:").split("|"))[0].strip().isdecimal()
        ]
        slow = sorted(rows, reverse=True)[:_SLOW_IMPORTS]
        print(f"{each.name}: {len(rows)} modules, {sum(own for own, _ in rows) / 1000:.0f} ms")
        print("   " + ", ".join(f"{name} {own / 1000:.1f}" for own, name in slow))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--pods", type=int, default=400, help="in the super cluster")
    parser.add_argument("--imports", action="store_true", help="print the slowest imports")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write. Return 1 if a command misses its goal."""
    asked = arguments()
    about: dict[str, Any] = {
        "noise": super_cluster.noise(),
        **image_python.machine(),
        "python": image_python.here(),
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = run(asked, Path(folder))
    heads = ("kubectl", "vc", "own", "best", "CPU")
    print(f"{'median ms':60}{''.join(f'{each:>9}' for each in heads)}{'ratio':>7}")
    for each in found:
        missed = "" if each["is_kept"] else f"  over {each['goal_ms']:.0f}"
        print(
            f"{each['command'][:58]:60}{each['kubectl_ms']:9.1f}{each['kubectl_vc_ms']:9.1f}"
            f"{each['own_ms']:9.1f}{each['own_best_ms']:9.1f}{each['own_cpu_ms']:9.1f}"
            f"{each['ratio']:7.2f}{missed}"
        )
    if not asked.imports:
        super_cluster.write(REPORT, {**about, "asked": vars(asked), "commands": found})
    return 0 if all(each["is_kept"] for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
