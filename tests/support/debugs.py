"""A debug container, as `kubectl debug` adds one and talks to it."""

from __future__ import annotations

from tests.support.kubectl import KubectlRunner

LOOKS = "read line; echo heard $line; tr '\\0' ' ' </proc/1/cmdline; echo; cat"
OPTIONS = ("--profile=baseline", "--image=busybox:latest", "--image-pull-policy=IfNotPresent")


def debugged(user: KubectlRunner, namespace: str, pod: str, name: str) -> None:
    """Add one to a sleeper. It reads its input and sees the processes of its target."""
    asked = ("debug", pod, "-i", "--quiet", f"--container={name}", "--target=main", *OPTIONS)
    with user.running("-n", namespace, *asked, "--", "sh", "-c", LOOKS) as debugging:
        assert debugging.stdin is not None
        assert debugging.stdout is not None
        debugging.stdin.write("hello\n")
        assert debugging.stdout.readline() == "heard hello\n"
        assert "sleep 2147483647" in debugging.stdout.readline()
        inside = user.run("-n", namespace, "exec", pod, "-c", name, "--", "echo", "inside")
        assert inside == "inside\n"
        debugging.stdin.close()
        debugging.wait(timeout=30)
    assert user.run("-n", namespace, "logs", pod, "-c", name).startswith("heard hello\n")
