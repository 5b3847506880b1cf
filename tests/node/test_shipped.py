"""The images' programs: what measurements start on the machine is what the pods run."""

import subprocess

import pytest

from bench.programs import image_python
from tests.node.conftest import COMPONENTS, SuperClusterAdmin

pytestmark = pytest.mark.node

SCRIPT = """
import platform, ssl
from importlib.metadata import distributions
print(platform.python_version(), ssl.OPENSSL_VERSION)
for each in distributions():
    print(each.name, each.version)
"""


@pytest.mark.parametrize("component", ["vc-syncer", "vc-manager"])
def test_what_is_measured_runs_with_the_interpreter_and_libraries_of_the_images(
    super_cluster: SuperClusterAdmin, component: str
) -> None:
    words = [*image_python.python(), "-c", SCRIPT]
    found = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    words = ["exec", f"deployment/{component}", "--", "/usr/bin/python3", "-c", SCRIPT]
    python, *libraries = super_cluster.kubectl.run("-n", COMPONENTS, *words).splitlines()
    measured, *beside = found.stdout.splitlines()
    assert measured == python
    assert "orjson" in {each.split()[0] for each in libraries}
    assert set(libraries) <= set(beside)
