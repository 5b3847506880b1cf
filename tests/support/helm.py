"""`helm template` for the tests of the chart."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tools.testbed.artifacts import binaries, product

CHART = product.REPOSITORY / "charts" / "virtual-cluster"
RELEASE, NAMESPACE = "virtual-cluster", "vc-manager"


def helm(*words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm and return what it left."""
    settings = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    return subprocess.run(
        [str(binaries.path("helm")), *words, *settings],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def render(*words: str) -> list[dict[str, Any]]:
    """Return the objects of the chart with some values."""
    done = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *words)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def refusal(*words: str) -> str:
    """Return why helm renders nothing."""
    done = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *words)
    assert done.returncode != 0, f"helm took {words}"
    return done.stderr


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Return the one object of this kind and name."""
    (found,) = [
        each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found
