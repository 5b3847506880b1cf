"""Versions of the testbed's parts: `versions.toml` and the pins in `gomod/*/go.mod`.

Hazard: the patch release in versions.toml and in go.mod must be equal, and `load` raises
TestbedError otherwise. With a difference the binaries would report a wrong version.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.testbed.errors import TestbedError

HERE = Path(__file__).resolve().parent
GOMOD = HERE / "gomod"


@dataclass(frozen=True, slots=True)
class KubernetesRelease:
    """One minor of Kubernetes and the Go module that pins its patch release."""

    minor: str
    version: str
    module: str
    suite: str = ""
    """Go module of its conformance suite. Empty if the testbed has none of this minor."""

    @property
    def number(self) -> int:
        """Second number of the minor, for comparisons. All known minors begin with 1."""
        return int(self.minor.removeprefix("1."))


@dataclass(frozen=True, slots=True)
class BaseImage:
    """The Debian root below the Python images."""

    suite: str
    packages: tuple[str, ...]
    python: str


@dataclass(frozen=True, slots=True)
class PinnedVersions:
    """The content of versions.toml."""

    kubernetes: tuple[KubernetesRelease, ...]
    kubectl: tuple[KubernetesRelease, ...]
    """Go modules of kubectl alone, for minors before the super cluster's own."""
    base: BaseImage

    @property
    def releases(self) -> tuple[KubernetesRelease, ...]:
        """All entries that are built from a patch release of Kubernetes."""
        return (*self.kubernetes, *self.kubectl)

    @property
    def suites(self) -> tuple[KubernetesRelease, ...]:
        """The minors with a conformance suite. The first one is the super cluster's own."""
        return tuple(entry for entry in self.kubernetes if entry.suite)

    def minor(self, minor: str | None = None) -> KubernetesRelease:
        """Return the named minor, or without a name the super cluster's own.

        Raises TestbedError.
        """
        if minor is None:
            return self.kubernetes[0]
        for entry in self.kubernetes:
            if entry.minor == minor:
                return entry
        known = ", ".join(entry.minor for entry in self.kubernetes)
        raise TestbedError(f"Kubernetes {minor} is not in versions.toml, which has {known}")


def module_version(module: str, path: str) -> str:
    """Return the version (without the v) at which a go.mod pins one module path."""
    text = (GOMOD / module / "go.mod").read_text()
    match = re.search(rf"^\s*(?:require )?{re.escape(path)} v(\S+)", text, re.MULTILINE)
    if match is None:
        raise TestbedError(f"gomod/{module}/go.mod does not require {path}. Add it with `go get`")
    return match[1]


def module_key(module: str) -> str:
    """Return a module's folder name in the cache. It changes with each pin and each Go file."""
    folder = GOMOD / module
    files = (folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go")))
    content = b"".join(file.read_bytes() for file in files)
    return f"{module}-{hashlib.sha256(content).hexdigest()[:12]}"


@functools.cache
def load() -> PinnedVersions:
    """Return the content of versions.toml, read once. Raises TestbedError if the pins differ."""
    data = tomllib.loads((HERE / "versions.toml").read_text())
    base = data["base"]
    found = PinnedVersions(
        kubernetes=tuple(KubernetesRelease(**entry) for entry in data["kubernetes"]),
        kubectl=tuple(KubernetesRelease(**entry) for entry in data["kubectl"]),
        base=BaseImage(base["suite"], tuple(base["packages"]), base["python"]),
    )
    for module, version, package in [
        *((entry.module, entry.version, "k8s.io/kubernetes") for entry in found.kubernetes),
        *((entry.module, entry.version, "k8s.io/kubectl") for entry in found.kubectl),
        *((entry.suite, entry.version, "k8s.io/kubernetes") for entry in found.suites),
    ]:
        # Staging modules have the same numbers behind a 0.
        pinned = re.sub(r"^0", "1", module_version(module, package))
        if pinned != version:
            raise TestbedError(
                f"versions.toml has Kubernetes {version} and gomod/{module}/go.mod has {pinned}."
                " Make them equal"
            )
    return found
