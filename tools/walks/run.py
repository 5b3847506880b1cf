"""Runner of walkthroughs, each in a folder of its own, with a comparison of the output.

Owns when a command is run again. A command that only reads is repeated until its output is as on
the page, as a person would repeat it. Everything else is run once. Hazard: a command that writes
must not pass for one that reads, otherwise it writes several times. Only the verbs in the list
read.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.walks import page
from tools.walks.page import PageCommand, PageFile

PATIENCE_SECONDS = 60.0
"""Limit in seconds for a command that reads. Pages use `kubectl wait` for what takes longer."""
MOST_SECONDS = 300.0
"""For one command."""
_PAUSE_SECONDS = 0.5
_REMARK = re.compile(r"^I\d{4} \d\d:\d\d:\d\d\.\d+ .*\n?", re.MULTILINE)
_READS = frozenset({"describe", "doctor", "events", "get", "list", "logs", "top"})
_GROUPS = ("vc", "target")
"""Words of kubectl's that a verb follows."""


class WalkthroughError(AssertionError):
    """A command failed, or printed something else than the page shows."""


def walk(path: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the steps of a page in this folder. Raises StepError."""
    for step in page.steps(path.read_text()):
        if isinstance(step, PageFile):
            (folder / step.name).write_text(step.text)
        else:
            _run(step, path.name, folder, environment)


def only_reads(text: str) -> bool:
    """Return whether a command changes nothing: each kubectl in it has a verb that reads."""
    verbs = set(_verbs(text.split()))
    return bool(verbs) and verbs <= _READS


def _verbs(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word.lstrip("$(") == "kubectl":
            rest = iter(words[at + 1 :])
            for following in rest:
                if following.startswith("-"):
                    if "=" not in following:
                        next(rest, "")  # its value
                elif following not in _GROUPS:
                    yield following
                    break


def _run(step: PageCommand, name: str, folder: Path, environment: Mapping[str, str]) -> None:
    begun = time.monotonic()
    deadline = begun + (PATIENCE_SECONDS if only_reads(step.text) else 0)
    while True:
        code, printed = _once(step.text, folder, environment)
        if code == 0 and page.is_shown(printed, step.shown):
            print(f"{time.monotonic() - begun:5.1f} s  {name}, line {step.line}: {step.text}")
            return
        if time.monotonic() >= deadline:
            shown = "\n".join(step.shown) or "(anything)"
            raise WalkthroughError(
                f"{name}, line {step.line}:\n$ {step.text}\nended with {code} and printed\n"
                f"{printed}\nThe page shows\n{shown}"
            )
        time.sleep(_PAUSE_SECONDS)


def _once(text: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command. Return its exit code, and both of its outputs together.

    Remarks of a Go client are left out, such as that a watch ended and was started again.
    """
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    return done.returncode, _REMARK.sub("", done.stdout)
