"""Pages of labels, annotations and conditions, from the constants of `tenancy`."""

from __future__ import annotations

from tenancy import wellknown
from tools.packages import ROOT
from tools.reference import markdown
from tools.reference.constants import DocumentedConstant, read_constants

_WELLKNOWN = "tenancy/wellknown.py"
_SUPER_CLUSTERS = "tenancy/super_clusters.py"
_TYPES = "Conditions of a VirtualCluster."
_REASONS = "Reasons of conditions of components."
_KEY_TEXTS = ("Annotation", "As `ROTATE_PREFIX`", "Label", "Prefix of annotations")
"""First words of the docstring of a key. Other constants are finalizers, signers or users."""
_KEYS_HEAD = markdown.build_head(
    "Labels and annotations",
    f"`{_WELLKNOWN}`",
    "Only annotations that request something are for users. The components write all other keys,"
    " and undo a change.",
)
_CONDITIONS_HEAD = markdown.build_head(
    "Conditions",
    f"`{_WELLKNOWN}` and `{_SUPER_CLUSTERS}`",
    "`kubectl vc get NAME` prints all conditions of a VirtualCluster. A message is for people and"
    " may change. A program reads type, status and reason.",
)


def build_keys_page() -> str:
    """Return the page of labels and annotations."""
    keys = [each for each in read_constants(ROOT / _WELLKNOWN) if _is_key(each)]
    rows = sorted((markdown.quote(each.value), each.text) for each in keys)
    return f"{_KEYS_HEAD}\n{markdown.build_table(('key', 'meaning'), rows)}"


def build_conditions_page() -> str:
    """Return the page of conditions."""
    constants = list(read_constants(ROOT / _WELLKNOWN))
    types = [each for each in constants if each.section == _TYPES and each.text[:6] != "Reason"]
    reasons = [each for each in constants if each.section.startswith(_REASONS)]
    clusters = [
        each for each in read_constants(ROOT / _SUPER_CLUSTERS) if each.text.startswith("Condition")
    ]
    return "\n".join(
        [
            _CONDITIONS_HEAD,
            "## VirtualCluster and ClusterVersion\n",
            _build_sections(types),
            "## SuperCluster\n",
            _build_sections(clusters),
            "## Reasons after which a person must change something\n",
            "\n".join(f"- `{each.value}`" for each in reasons) + "\n",
        ]
    )


def _is_key(constant: DocumentedConstant) -> bool:
    is_ours = constant.value.partition("/")[0].endswith(wellknown.DOMAIN)
    return is_ours and constant.text.startswith(_KEY_TEXTS)


def _build_sections(constants: list[DocumentedConstant]) -> str:
    return "\n".join(f"### {each.value}\n\n{_read_text(each)}\n" for each in constants)


def _read_text(constant: DocumentedConstant) -> str:
    """Return the docstring of a condition. Raises ValueError if it has none."""
    if not constant.text:
        raise ValueError(f"{constant.name} has no docstring. Add the meaning of the condition")
    return constant.text
