"""cert-manager from its own Go module: three images and the chart with its CRDs.

Version 1.11 is the newest version with the programs in its root module. Later versions keep them in
nested modules without tags, which no proxy has.

Hazard: `write_chart` must repeat the steps of upstream's release job. The module ships the chart
without a version and without the CRDs, which are next to it as templates.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.testbed import versions
from tools.testbed.artifacts import binaries, debian, images
from tools.testbed.artifacts.oci import Image
from tools.testbed.progress import StepPrinter

_MODULE = "github.com/cert-manager/cert-manager"
_NO_VERSION = "v0.1.0"
PARTS = ("controller", "webhook", "cainjector")


def version() -> str:
    """Return the version of the images and the chart."""
    return f"v{versions.module_version('cert-manager', _MODULE)}"


def build(progress: StepPrinter) -> list[Image]:
    """Build the images. Quick if they are in the cache."""
    base = debian.root(progress)
    binaries.build(binaries.programs(["cert-manager"]), progress)
    return [
        images.of_programs(
            f"{_repository(part)}:{version()}", "cert-manager", f"cert-manager-{part}"
        ).make(base)
        for part in PARTS
    ]


def write_chart(folder: Path) -> Path:
    """Write the chart into an empty folder. Returns the chart's own folder."""
    deploy = binaries.source("cert-manager", _MODULE) / "deploy"
    chart = folder / "cert-manager"
    templates = chart / "templates"
    templates.mkdir(parents=True)
    shipped = deploy / "charts" / "cert-manager"
    for file in (*(shipped / "templates").iterdir(), *(deploy / "crds").glob("crd-*.yaml")):
        shutil.copyfile(file, templates / file.name)
    shutil.copyfile(shipped / "values.yaml", chart / "values.yaml")
    text = (shipped / "Chart.template.yaml").read_text().replace(_NO_VERSION, version())
    (chart / "Chart.yaml").write_text(text)
    return chart


def settings() -> list[str]:
    """Return the chart's values with our images, without parts that need an image we lack."""
    values = {
        "image.repository": _repository("controller"),
        "webhook.image.repository": _repository("webhook"),
        "cainjector.image.repository": _repository("cainjector"),
        "startupapicheck.enabled": "false",
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def _repository(part: str) -> str:
    return f"{images.PREFIX}/cert-manager-{part}"
