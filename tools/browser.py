"""Chromium and its ChromeDriver for tests, in a Debian root of their own.

Nothing is installed on the machine. Hazard: the root in the cache is shared by all runs. Therefore
every folder that a browser writes is a file system of the run's own mount namespace.
"""

from __future__ import annotations

from pathlib import Path

from tools.testbed import debian
from tools.testbed.progress import StepPrinter

PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
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
_MOUNTS = """
set -e
for each in tmp run root var/tmp dev; do mount -t tmpfs none "$1/$each"; done
chmod 1777 "$1/tmp"
for each in null zero random urandom full; do
  touch "$1/dev/$each" && mount --bind "/dev/$each" "$1/dev/$each"
done
mkdir -p "$1/dev/shm" && mount -t tmpfs none "$1/dev/shm"
mount -t proc proc "$1/proc"
exec env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 chroot "$@"
"""


def build(progress: StepPrinter) -> Path:
    """Return the root with the browser, made if missing."""
    return debian.root_with(PACKAGES, progress, "the browser of tests")


def build_driver_command(base: Path, port: int) -> list[str]:
    """Return the command that serves WebDriver on a port of loopback."""
    driver = ["/usr/bin/chromedriver", f"--port={port}"]
    return [*debian.ALONE, "sh", "-c", _MOUNTS, "sh", str(base), *driver]
