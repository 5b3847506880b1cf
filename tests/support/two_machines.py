"""A second machine for a program that runs in a network namespace of its own, and a wire to it.

Run the program by `unshare --net`. The machine is a second namespace, which ends with the block.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

HERE, THERE = "10.99.0.1", "10.99.0.2"


@contextmanager
def other_machine() -> Iterator[int]:
    """Make the machine. Its namespace is that of the process with the yielded number."""
    _ip("link", "set", "lo", "up")
    words = ["unshare", "--net", "sh", "-c", "echo; exec sleep 300"]
    other = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()  # before that it has no namespace of its own
        _ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(other.pid))
        _ip("addr", "add", f"{HERE}/24", "dev", "here")
        _ip("link", "set", "here", "up")
        _there(other.pid, "addr", "add", f"{THERE}/24", "dev", "there")
        _there(other.pid, "link", "set", "there", "up")
        yield other.pid
    finally:
        other.kill()
        other.communicate()


def on(machine: int, *words: str) -> list[str]:
    """Return the words that run a program on the other machine."""
    return ["nsenter", "-t", str(machine), "-n", *words]


def vanish(machine: int) -> None:
    """Cut the other machine off, without a word to anyone."""
    _there(machine, "link", "set", "there", "down")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _there(machine: int, *words: str) -> None:
    subprocess.run(on(machine, "ip", *words), check=True)
