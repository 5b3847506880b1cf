"""kubectl as the tests use it: one kubeconfig, output parsed, failures with the words of kubectl.

Hazard: a test must not read the ambient KUBECONFIG. Every call sets its own.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tools.testbed.artifacts import binaries

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class KubectlOutput:
    """The result of a command: exit code and both outputs."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, kw_only=True)
class KubectlRunner:
    """One cluster through kubectl."""

    kubeconfig: Path
    path: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment of kubectl."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": self.path}

    def of_minor(self, minor: str) -> Self:
        """Return the same cluster through another minor's kubectl."""
        folder = binaries.path("kubectl", minor).parent
        return replace(self, path=f"{folder}{os.pathsep}{self.path}")

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Have kubectl run beside the test, line by line through pipes. Ended with the block."""
        with subprocess.Popen(
            ["kubectl", *words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def call(self, *words: str, stdin: str | None = None, timeout: float = 120) -> KubectlOutput:
        """Run kubectl and return what it left, whatever the exit code."""
        done = subprocess.run(
            ["kubectl", *words],
            env=self.environment,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return KubectlOutput(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl and return its output. Fails the test when kubectl fails."""
        done = self.call(*words, stdin=stdin, timeout=timeout)
        assert done.code == 0, (
            f"kubectl {' '.join(words)}: exit {done.code}: {done.err or done.out}"
        )
        return done.out

    def terminal(self, command: str, timeout: float = 60) -> KubectlOutput:
        """Run a shell command with a terminal around it, as `script` gives one."""
        done = subprocess.run(
            ["script", "--quiet", "--return", "--command", command, "/dev/null"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return KubectlOutput(done.returncode, done.stdout, done.stderr)

    def get(self, *words: str) -> dict[str, Any]:
        """Return an object or a list as a dict."""
        found: dict[str, Any] = json.loads(self.run("get", *words, "-o", "json"))
        return found

    def items(self, *words: str) -> list[dict[str, Any]]:
        """Return the items of a list."""
        found: list[dict[str, Any]] = self.get(*words)["items"]
        return found

    def names(self, *words: str) -> list[str]:
        """Return the sorted names of a list."""
        return sorted(item["metadata"]["name"] for item in self.items(*words))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.run("apply", "-f", "-", stdin=json.dumps(listed(objects)))

    def exists(self, *words: str) -> bool:
        """Return whether an object is there. Fails the test on any error but NotFound."""
        done = self.call("get", *words, "-o", "name")
        assert done.code == 0 or "NotFound" in done.err, done.err
        return done.code == 0


def listed(objects: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return objects as one List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def until(fact: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    """Wait until `fact` returns something true, and return it.

    An AssertionError inside counts as not yet. Fails the test with what was seen last.
    """
    deadline = time.monotonic() + seconds
    seen: Any = None
    while True:
        try:
            seen = fact()
            if seen:
                return seen
        except AssertionError as problem:
            seen = problem
        if time.monotonic() > deadline:
            raise AssertionError(f"not seen within {seconds:.0f} s: {what}; last: {seen!r}")
        time.sleep(POLL_SECONDS)


def stays(fact: Callable[[], Any], what: str, seconds: float) -> None:
    """Watch that `fact` stays true for a while. Fails the test at once when it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert fact(), f"ceased to be true: {what}"
        time.sleep(POLL_SECONDS)
