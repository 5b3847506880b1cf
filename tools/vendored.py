"""`python -m tools.vendored`: fetch the files of other projects that the wheel contains.

Owns the check of their digests. For a new version, change `version` and the digests in
`kubectl_vc/ui/static/vendored.toml`, and run it. The files are committed, so no build needs npm.
"""

from __future__ import annotations

import hashlib
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.packages import ROOT
from tools.testbed.commands import run

FOLDER = ROOT / "kubectl_vc" / "ui" / "static"
TABLE = "vendored.toml"


@dataclass(frozen=True, slots=True)
class VendoredFile:
    """One file of a package of the npm registry."""

    name: str
    member: str
    """Path in the archive."""
    sha256: str


@dataclass(frozen=True, slots=True)
class VendoredPackage:
    """One package of the npm registry."""

    name: str
    version: str
    archive: str
    """SHA-512 of the archive."""
    files: tuple[VendoredFile, ...]


class WrongDigestError(Exception):
    """A file is not the recorded one. The message names it and the remedy."""


def load_packages(folder: Path = FOLDER) -> list[VendoredPackage]:
    """Return the packages of the table."""
    table = tomllib.loads((folder / TABLE).read_text())
    return [
        VendoredPackage(
            name,
            each["version"],
            each["archive"],
            tuple(VendoredFile(file, **row) for file, row in each["files"].items()),
        )
        for name, each in table.items()
    ]


def check_files(folder: Path = FOLDER) -> None:
    """Raise WrongDigestError if a file differs from its recorded digest."""
    for package in load_packages(folder):
        for file in package.files:
            _check(f"{folder / file.name}", (folder / file.name).read_bytes(), file.sha256)


def extract(package: VendoredPackage, archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of an archive. Raises WrongDigestError."""
    _check(f"the archive of {package.name}", archive, package.archive, "sha512")
    with tempfile.TemporaryFile() as content:
        content.write(archive)
        content.seek(0)
        with tarfile.open(fileobj=content, mode="r:gz") as found:
            for file in package.files:
                member = found.extractfile(file.member)
                if member is None:
                    raise WrongDigestError(f"{file.member} is no file of {package.name}.")
                body = member.read()
                _check(file.name, body, file.sha256)
                yield file.name, body


def _check(what: str, body: bytes, expected: str, kind: str = "sha256") -> None:
    found = hashlib.new(kind, body).hexdigest()
    if found != expected:
        raise WrongDigestError(
            f"{what}: its {kind} is {found}, and {TABLE} has {expected}. Restore the file, or run"
            " `python -m tools.vendored`."
        )


def fetch(folder: Path = FOLDER) -> Mapping[str, int]:
    """Write all files from the npm registry, and return their sizes in bytes."""
    sizes = {}
    for package in load_packages(folder):
        with tempfile.TemporaryDirectory() as scratch:
            wanted = f"{package.name}@{package.version}"
            run(["npm", "pack", "--silent", "--pack-destination", scratch, wanted])
            (archive,) = Path(scratch).iterdir()
            for name, body in extract(package, archive.read_bytes()):
                (folder / name).write_bytes(body)
                sizes[name] = len(body)
    return sizes


if __name__ == "__main__":
    try:
        for name, size in fetch().items():
            print(f"{name}: {size} bytes")
    except WrongDigestError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
