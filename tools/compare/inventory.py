"""Objects of one namespace in one cluster: every object that can be listed, as JSON.

Owns which cluster-scoped objects belong to a namespace: the volumes of its claims, and all nodes.
Must not judge. Hazard: a cluster may serve kinds that the other one does not, so only objects
count.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]

_SEEN_TWICE = frozenset({"events.events.k8s.io"})
"""Resources that show objects of another resource a second time."""


class ClusterReadError(Exception):
    """A cluster did not answer. The text is for people."""


@dataclass(frozen=True, kw_only=True)
class ComparedCluster:
    """One cluster, read through kubectl."""

    kubeconfig: Path
    path: str = os.environ.get("PATH", os.defpath)

    def objects(self, namespace: str) -> list[Object]:
        """Return every object of a namespace, the volumes bound to it, and the nodes."""
        words = ("api-resources", "--namespaced", "--verbs=list", "-o", "name")
        resources = sorted(set(self._run(*words).split()) - _SEEN_TWICE)
        found = self._get(",".join(resources), "--namespace", namespace)
        volumes = [
            volume for volume in self._get("persistentvolumes") if _is_for(volume, namespace)
        ]
        return [*found, *volumes, *self._get("nodes")]

    def _get(self, *words: str) -> list[Object]:
        text = self._run("get", *words, "-o", "json", "--show-managed-fields")
        items: list[Object] = json.loads(text)["items"]
        return items

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            ["kubectl", "--request-timeout=30s", *words],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": self.path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip()
            raise ClusterReadError(f"{self.kubeconfig}: kubectl {' '.join(words)[:80]}: {said}")
        return done.stdout


def _is_for(volume: Object, namespace: str) -> bool:
    return bool((volume["spec"].get("claimRef") or {}).get("namespace") == namespace)
