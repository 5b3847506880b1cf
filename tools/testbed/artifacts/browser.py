"""Chromium and its ChromeDriver for tests, in a Debian root of their own.

Nothing is installed on the machine. Hazard: the root in the cache is shared by all runs. Therefore
every folder that a browser writes is a file system of the run's own mount namespace.
"""

from __future__ import annotations

from pathlib import Path

from tools.testbed.artifacts import debian
from tools.testbed.progress import StepPrinter

PACKAGES = ("chromium", "chromium-driver", "dbus-x11", "fonts-dejavu-core")
"""debootstrap knows no virtual packages, so one that provides dbus-session-bus is named."""
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",  # it runs as root in a root of its own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1280,900",
)
"""Without the flags about networking, Chromium asks for hosts of its vendor at every start."""
_MOUNTS = " && ".join(
    (
        *(f'mount -t tmpfs none "$1/{each}"' for each in ("tmp", "run", "root", "var/tmp", "dev")),
        'chmod 1777 "$1/tmp"',
        *(
            f'touch "$1/dev/{each}" && mount --bind "/dev/{each}" "$1/dev/{each}"'
            for each in ("null", "zero", "random", "urandom", "full")
        ),
        'mkdir "$1/dev/shm"',
        'mount -t tmpfs none "$1/dev/shm"',
        'mount -t proc proc "$1/proc"',
        'exec env -i PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 chroot "$@"',
    )
)
"""Shell command whose arguments are a root, a program and its arguments."""


def build(progress: StepPrinter) -> Path:
    """Return the root with the browser, made if missing."""
    base = debian.root_with(PACKAGES, progress, "the browser of tests")
    hosts = base / "etc/hosts"
    if not hosts.exists():
        hosts.write_text("127.0.0.1 localhost\n")  # ChromeDriver reaches Chromium by this name
    return base


def build_driver_command(base: Path, port: int) -> list[str]:
    """Return the command that serves WebDriver on a port of loopback."""
    driver = ["/usr/bin/chromedriver", f"--port={port}"]
    return [*debian.ALONE, "sh", "-c", _MOUNTS, "sh", str(base), *driver]
