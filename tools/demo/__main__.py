"""`python -m tools.demo`: print the main job as a transcript, embedded or on one's own cluster.

Hazard: the transcript is documentation. A step that needs two explanations belongs in the product.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools.demo.transcript import DemoShell, TranscriptError, fail, say
from tools.testbed import chart
from tools.testbed.artifacts import binaries
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent.relative_to(ROOT)
STATE = Path(".testbed")
TENANT = "vc-1"
DEMO_LABEL = "app.kubernetes.io/part-of=virtual-cluster-demo"
"""Mark that distinguishes it from a tenant of the same name that is in use."""
POLICY = "virtual-cluster-demo"
PROVED = 0
UNPROVED: Mapping[int, str] = {
    3: "found a hole in the isolation of the tenant",
    4: "has probes without a verdict",
}
"""Exit codes of an audit besides 0, and their meaning."""
TENANT_KUBECONFIG = STATE / f"{TENANT}.kubeconfig"


class SuperCluster(NamedTuple):
    """The super cluster of the demo."""

    kubeconfig: Path
    is_embedded: bool
    enforces: bool
    """Whether its nodes enforce NetworkPolicies. It is unknown, and False, for a user's cluster."""

    @property
    def must_isolate(self) -> bool:
        """Whether an audit without a proof is a fault of the product."""
        return self.is_embedded and self.enforces


def main() -> int:
    """Run the demo. Return 0 if every step succeeded."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--super-kubeconfig", type=Path, help="your own super cluster")
    parser.add_argument("--images", help="REGISTRY/PREFIX that holds the images (make push)")
    arguments = parser.parse_args()
    if bool(arguments.super_kubeconfig) != bool(arguments.images):
        parser.error("--super-kubeconfig and --images go together (SUPER_KUBECONFIG=, IMAGES=)")
    os.chdir(ROOT)
    STATE.mkdir(mode=0o700, exist_ok=True)
    try:
        cluster = prepare_super_cluster(arguments.super_kubeconfig, arguments.images)
        path = search_path()
        transcript(
            DemoShell(prompt="super", kubeconfig=cluster.kubeconfig, path=path),
            DemoShell(prompt=TENANT, kubeconfig=ROOT / TENANT_KUBECONFIG, path=path),
            cluster,
        )
    except (TranscriptError, TestbedError) as problem:
        return fail(problem)
    return 0


def prepare_super_cluster(own: Path | None, images: str | None) -> SuperCluster:
    """Start the embedded super cluster, or use the user's, and install the chart."""
    progress = StepPrinter()
    if own is not None and images is not None:
        kubeconfig = own.resolve()
        if not kubeconfig.is_file():
            raise TranscriptError(
                f"the file {own} does not exist. Set SUPER_KUBECONFIG to your kubeconfig"
            )
        chart.install(kubeconfig, progress, registry=images)
        return SuperCluster(kubeconfig, is_embedded=False, enforces=False)
    say("# A super cluster: one real node in network namespaces of its own.\n")
    cluster = ClusterHandle("super")
    cluster.up(progress)
    chart.install(cluster, progress)
    return SuperCluster(cluster.kubeconfig, is_embedded=True, enforces=cluster.enforces)


def search_path() -> str:
    """Return a PATH with kubectl and kubectl-vc in front."""
    found = shutil.which("kubectl")
    kubectl = binaries.path("kubectl") if found is None else Path(found)
    folders = [str(Path(sys.executable).parent), str(binaries.path("kubectl").parent)]
    return os.pathsep.join([*folders, str(kubectl.parent), os.environ.get("PATH", "")])


def transcript(super_shell: DemoShell, tenant: DemoShell, cluster: SuperCluster) -> None:
    """Walk from the super cluster into a tenant and back."""
    embedded = cluster.is_embedded
    say(
        "\n# Two prompts: `super$` has the platform administrator's KUBECONFIG, "
        f"`{TENANT}$` the tenant admin's\n# ({source_of(super_shell, embedded=embedded)},"
        f" {TENANT_KUBECONFIG})."
        " The three components are ordinary pods:\n"
    )
    super_shell.run("kubectl", "get", "nodes")
    super_shell.run("kubectl", "get", "pods", "-n", "vc-manager")
    clear_away(super_shell)

    say("# A policy limits what the tenant may ask of the super cluster. This one has a quota.\n")
    super_shell.run("kubectl", "apply", "-f", HERE / "policy.yaml")
    say("# A tenant: a Kubernetes control plane of its own.\n")
    super_shell.run(
        *("kubectl", "vc", "create", "-f", HERE / "vc.yaml"), *("-o", TENANT_KUBECONFIG)
    )
    say(
        "# Inside, the tenant is a cluster with its own namespaces. It has no objects of other"
        " tenants.\n# A node appears with the first pod.\n"
    )
    tenant.run("kubectl", "get", "namespaces")
    tenant.run("kubectl", "get", "nodes")

    say("# Its name server follows some seconds later.\n")
    super_shell.run(
        *("kubectl", "wait", f"virtualcluster/{TENANT}"),
        *("--for=condition=DNSReady", "--timeout=120s"),
    )
    say("# Its admin does what one does: a Deployment, a Service, a Job.\n")
    tenant.run("kubectl", "create", "namespace", "shop")
    tenant.run("kubectl", "apply", "-f", HERE / "shop.yaml")
    tenant.run("kubectl", "-n", "shop", "rollout", "status", "deployment/web", "--timeout=120s")
    tenant.run(
        *("kubectl", "-n", "shop", "wait", "--for=condition=Complete", "job/inventory"),
        "--timeout=120s",
    )
    tenant.run("kubectl", "-n", "shop", "get", "pods,services", "-o", "wide")
    tenant.run("kubectl", "get", "nodes")

    say("# Logs, a command in a pod, a name looked up, the Service called.\n")
    tenant.run("kubectl", "-n", "shop", "logs", "deployment/web")
    tenant.run("kubectl", "-n", "shop", "exec", "deployment/web", "--", "hostname")
    name = "web.shop.svc.cluster.local"
    tenant.run("kubectl", "-n", "shop", "exec", "deployment/web", "--", "nslookup", name)
    tenant.run(
        *("kubectl", "-n", "shop", "exec", "deployment/web", "--"), "wget", "-qO-", "http://web"
    )
    say("# The Job listed the pods of its own namespace over HTTPS, with its own token and CA.\n")
    tenant.run("kubectl", "-n", "shop", "logs", "job/inventory")

    say("# The platform administrator sees the same pods in namespaces with the tenant's prefix.\n")
    super_shell.run("kubectl", "get", "namespaces")
    label = f"tenancy.x-k8s.io/vcname={TENANT},tenancy.x-k8s.io/vcnamespace=default"
    super_shell.run("kubectl", "get", "pods", "-A", "-l", label, "-o", "wide")
    super_shell.run("kubectl", "vc", "get", TENANT)
    audit(super_shell, cluster)
    farewell(super_shell, embedded=embedded)


def audit(super_shell: DemoShell, cluster: SuperCluster) -> None:
    """Audit the tenant with a decoy. A cluster that enforces no network policies has holes."""
    say(
        "# Is it isolated? An audit tries what a hostile tenant would, with a second tenant as\n"
        "# decoy. It takes two minutes, prints one row per probe, and removes what it made.\n"
        "# A probe is absent if its target, for example a cloud's metadata server, is not here.\n"
    )
    command = ("kubectl", "vc", "audit", TENANT)
    code = super_shell.run_for_last_line(*command, allowed=(PROVED, *UNPROVED))
    check_audit(code, must_isolate=cluster.must_isolate)


def check_audit(code: int, *, must_isolate: bool) -> None:
    """Raise TranscriptError for an audit without a proof, if the cluster must isolate tenants."""
    if code != PROVED and must_isolate:
        raise TranscriptError(
            f"the audit {UNPROVED[code]}, although this cluster enforces network policies. Run"
            f" `kubectl vc audit {TENANT}`, and read the rows that are failed or unknown"
        )


def clear_away(super_shell: DemoShell) -> None:
    """Delete objects of an earlier run of the demo.

    Raises StepError if there is a tenant of the same name that is not the demo's.
    """
    name = f"virtualcluster.tenancy.x-k8s.io/{TENANT}"
    found = ("kubectl", "get", "virtualclusters", "-n", "default", "-o", "name")
    if name in super_shell.read(*found).split():
        if name not in super_shell.read(*found, "-l", DEMO_LABEL).split():
            raise TranscriptError(
                f"the cluster has a VirtualCluster default/{TENANT} that the demo did not create."
                f" Rename or delete it first (kubectl vc delete {TENANT})"
            )
        say(f"# An earlier run left the tenant {TENANT}; it goes first.\n")
        super_shell.run("kubectl", "vc", "delete", TENANT, "--yes")
    TENANT_KUBECONFIG.unlink(missing_ok=True)


def source_of(super_shell: DemoShell, *, embedded: bool) -> Path:
    """Return the platform administrator's kubeconfig as the reader finds it."""
    return STATE / super_shell.kubeconfig.name if embedded else super_shell.kubeconfig


def farewell(super_shell: DemoShell, *, embedded: bool) -> None:
    """Print how to continue and how to remove everything."""
    source = source_of(super_shell, embedded=embedded)
    paths = [path if path.is_absolute() else f"$PWD/{path}" for path in (TENANT_KUBECONFIG, source)]
    tools = (
        ('eval "$(.venv/bin/python -m tools.testbed env)"', "kubectl and kubectl-vc on PATH")
        if embedded
        else ('export PATH="$PWD/.venv/bin:$PATH"', "kubectl-vc")
    )
    removal = (
        [("make down", "removes the super cluster and all in it")]
        if embedded
        else [
            (f"KUBECONFIG={source} kubectl vc delete {TENANT}", "the tenant"),
            (f"KUBECONFIG={source} kubectl delete tenantpolicy {POLICY}", "its policy"),
            (f"KUBECONFIG={source} helm uninstall virtual-cluster -n vc-manager", "the chart"),
        ]
    )
    going_on = [
        tools,
        (f"export KUBECONFIG={paths[0]}", "be the tenant's admin"),
        (f"export KUBECONFIG={paths[1]}", "be the platform administrator"),
    ]
    width = max(len(command) for command, _ in (*going_on, *removal))
    for title, lines in (("Go on", going_on), ("Remove", removal)):
        said = "".join(f"  {command.ljust(width)}  # {what}\n" for command, what in lines)
        say(f"# {title}:\n{said.rstrip()}")


if __name__ == "__main__":
    sys.exit(main())
