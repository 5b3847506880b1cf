"""Files of other projects are those with the recorded digests."""

import hashlib
import io
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kubectl_vc.ui.server import STATIC_FILES
from tools import vendored
from tools.vendored import VendoredFile, VendoredPackage, WrongDigestError


def test_the_committed_files_have_their_digests():
    vendored.check_files()


def test_a_changed_file_is_noticed(tmp_path: Path):
    shutil.copytree(vendored.FOLDER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "htmx.min.js").write_text("alert(1)")
    with pytest.raises(WrongDigestError, match=r"htmx.min.js: its sha256 is"):
        vendored.check_files(tmp_path)


def test_each_file_is_our_own_or_in_the_table():
    known = {file.name for package in vendored.load_packages() for file in package.files}
    present = {path.name for path in vendored.FOLDER.iterdir()}
    assert present - known == {"ui.css", "ui.js", "ui.svg", vendored.TABLE}
    assert set(STATIC_FILES) <= present


def test_only_the_recorded_archive_is_extracted():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/a.js")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    body = content.getvalue()
    file = VendoredFile("a.js", "package/a.js", hashlib.sha256(b"x").hexdigest())
    package = VendoredPackage("a", "1", hashlib.sha512(body).hexdigest(), (file,))
    assert dict(vendored.extract(package, body)) == {"a.js": b"x"}
    for wrong in (
        replace(package, archive="0"),
        replace(package, files=(replace(file, sha256="0"),)),
    ):
        with pytest.raises(WrongDigestError):
            dict(vendored.extract(wrong, body))
