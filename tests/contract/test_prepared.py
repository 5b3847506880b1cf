"""Programs and images of tests are built before the first test, by the table of targets."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tools.testbed import cache, push, targets, versions
from tools.testbed.artifacts import (
    binaries,
    browser,
    debian,
    haproxy,
    images,
    oci,
    oidc_server,
    product,
)
from tools.testbed.artifacts.oci import Blob, Image
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

TESTS = product.REPOSITORY / "tests"
FOLDERS = {
    "integration": ("chart", "integration", "support", "chaos"),
    "test": ("chart", "integration", "node", "support", "chaos"),
    "thorough": ("chart", "integration", "node", "support", "chaos"),
}
"""Folders of code that a target runs, from the root of the tests."""
THOROUGH = "\npytestmark = pytest.mark.thorough\n"
"""Line of a module that only `thorough` runs."""


OWN = versions.load().kubernetes[0].minor


def used(folder: Path, target: str) -> Iterator[tuple[Path, str]]:
    """Return the programs that modules of a target ask the testbed for by name."""
    for path in folder.rglob("*.py"):
        text = path.read_text()
        if THOROUGH in text and target != "thorough":
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="binaries"), attr="path"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    yield path, name


@pytest.mark.parametrize("target", FOLDERS)
def test_each_program_that_tests_use_is_in_the_row_of_its_target(target: str):
    built = {(each.name, each.module) for each in binaries.programs(targets.TARGETS[target].groups)}
    found = [each for folder in FOLDERS[target] for each in used(TESTS / folder, target)]
    assert len(found) > 5
    for path, name in found:
        program = binaries.program(name)
        assert (name, program.module) in built, f"{path} uses {name}, which `{target}` has not"


def test_each_program_of_a_cluster_is_in_the_rows_of_targets_with_clusters():
    for name in ("demo", "up", "node", "test", "thorough", "slow", "conformance", "bench"):
        built = set(binaries.programs(targets.TARGETS[name].groups))
        assert set(binaries.for_cluster(OWN)) <= built, name


def test_the_demo_builds_no_program_that_no_cluster_runs():
    built = binaries.programs(targets.TARGETS["demo"].groups)
    assert {each.name for each in built} == {each.name for each in binaries.for_cluster(OWN)}
    assert "metrics-server" not in {each.name for each in built}


def test_each_program_in_the_images_of_a_cluster_is_one_that_a_cluster_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """`make demo` on a fresh machine once ended at the image of etcd, which has etcdutl."""
    asked: list[tuple[str, str | None]] = []

    def path(name: str, minor: str | None = None) -> Path:
        asked.append((name, minor))
        return tmp_path

    monkeypatch.setattr(binaries, "path", path)
    monkeypatch.setattr(oci, "file_key", str)
    monkeypatch.setattr(oci, "layer", lambda key, _entries: key)
    monkeypatch.setattr(oci, "image", lambda name, *_layers, **_settings: name)
    monkeypatch.setattr(debian, "busybox_layer", str)
    monkeypatch.setattr(debian, "layer", str)
    for recipe in images.recipes():
        if not recipe.needs:
            recipe.make(tmp_path)
    assert ("etcdctl", None) in asked
    built = set(binaries.for_cluster(OWN))
    assert {binaries.program(*each) for each in asked} <= built


def test_only_the_longest_target_builds_a_whole_super_cluster_of_a_newer_minor():
    def built(name: str, minor: str) -> set[str]:
        module = versions.load().minor(minor).module
        programs = binaries.programs(targets.TARGETS[name].groups)
        return {each.name for each in programs if each.module == module}

    newer = "1.37"
    for name in ("demo", "up", "node", "bench", "conformance"):
        assert built(name, newer) == set(), name
    for name in ("integration", "test", "thorough"):
        assert built(name, newer) == set(binaries.TENANT), name
    assert built("slow", newer) == set(binaries.SUPER)
    assert built("thorough", "1.35") == set(binaries.SUPER)


def test_what_make_test_builds_the_longer_targets_have_as_well():
    for longer in ("thorough", "slow"):
        assert set(targets.TARGETS["test"].groups) <= set(targets.TARGETS[longer].groups)


def test_each_target_that_runs_tests_prepares_first():
    """A rule of the Makefile with a run of tests on real programs begins with its own row."""
    rules = re.findall(
        r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n)+)",
        (product.REPOSITORY / "Makefile").read_text(),
        re.MULTILINE,
    )
    runs = r"\$\(PYTEST\)|call tried|-m (?:tools\.demo|tools\.conformance|bench)\b"
    needing = {
        name: body
        for name, body in rules
        if re.search(runs, body) or name in ("up", "test", "thorough")
    }
    assert {"unit", "integration", "node", "test", "thorough", "slow", "demo"} <= set(needing)
    for name, body in needing.items():
        # `check` is for before each commit, and its tests are those of `unit`.
        if name == "check" or name.startswith("thorough-"):
            continue
        row = re.match(r"\t.*\$\(call prepare,([a-z-]+)\)", body)
        assert row is not None, f"`make {name}` runs before anything is built"
        assert row[1] in targets.TARGETS
        assert row[1] == {"bench-all": "bench", "changed": "thorough"}.get(name, name)


def test_the_browser_of_slow_tests_is_built_before_them():
    assert browser.build in targets.TARGETS["slow"].images
    for path in (TESTS / "integration" / "kubectl_vc").glob("*browser*.py"):
        assert "pytestmark = pytest.mark.slow" in path.read_text(), path


def test_haproxy_is_unpacked_before_the_tests_that_run_it():
    for name in ("integration", "test", "thorough", "slow"):
        assert haproxy.build in targets.TARGETS[name].packages, name
    for name in ("node", "test", "thorough", "slow"):
        assert haproxy.build_image in targets.TARGETS[name].images, name
    assert haproxy.build not in targets.TARGETS["demo"].packages


def test_the_oidc_provider_is_installed_before_the_test_that_runs_it(
    empty: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("integration", "test", "thorough", "slow"):
        assert oidc_server.prepare in targets.TARGETS[name].packages, name
    with pytest.raises(TestbedError, match="tests build nothing"):
        oidc_server.build(StepPrinter(quiet=True))
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(TestbedError, match="node and npm are missing"):
        oidc_server.prepare(StepPrinter(quiet=True))
    monkeypatch.delenv("CI")
    oidc_server.prepare(StepPrinter(quiet=True))


def test_the_chart_names_the_image_of_haproxy():
    values = yaml.safe_load((product.REPOSITORY / "charts/virtual-cluster/values.yaml").read_text())
    assert haproxy.IMAGE.endswith(f"/haproxy:{values['apiProxy']['image']['tag']}")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of a fresh machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(binaries.OVERRIDE, raising=False)
    return cache.root()


def test_a_test_builds_no_program(empty: Path):
    quiet = StepPrinter(quiet=True)
    with pytest.raises(TestbedError, match=r"tests build nothing. Run `make prepare` first"):
        binaries.build([binaries.program("etcd")], quiet)
    with pytest.raises(TestbedError, match=r"`make prepare`, or .* build etcd`"):
        binaries.path("etcd")
    assert not (empty / "bin").exists()


def test_a_test_makes_no_root_of_images(empty: Path):
    with pytest.raises(TestbedError, match=r"tests build nothing"):
        debian.root(StepPrinter(quiet=True))
    assert not (empty / "debian").exists()


def test_push_builds_the_programs_of_its_images(monkeypatch):
    """A machine that only pushes has no programs of a super cluster."""
    needed: set[Path] = set()

    def path(name: str, minor: str | None = None) -> Path:
        needed.add(binaries.location(binaries.program(name, minor)))
        return Path(name)

    def image(name: str, *_: object, **__: object) -> Image:
        return Image(name, Blob("", 0), ())

    built: set[Path] = set()
    monkeypatch.setattr(
        binaries, "build", lambda wanted, _: built.update(map(binaries.location, wanted))
    )
    monkeypatch.setattr(binaries, "path", path)
    monkeypatch.setattr(debian, "root", lambda _: Path())
    monkeypatch.setattr(debian, "busybox_layer", lambda _: None)
    monkeypatch.setattr(images, "_program_layer", lambda *_: None)
    monkeypatch.setattr(oci, "image", image)
    monkeypatch.setattr(product, "build", lambda _: [])
    monkeypatch.setattr(haproxy, "build_image", lambda _: image(haproxy.IMAGE))
    monkeypatch.setattr(push, "_push", lambda *_: None)
    pushed = push.push("registry.example.com/x", StepPrinter(quiet=True))
    assert len(pushed) == 4 + 2 * len(versions.load().kubernetes)
    assert "registry.example.com/x/haproxy:3.0" in pushed
    assert needed <= built
