"""Generated objects against generated SyncRules: nothing outside of a rule reaches the twin."""

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from tenancy import names
from tenancy.sync_rules.checks import CLOSED_FIELDS, find_problem
from tenancy.sync_rules.specs import SyncRule, list_body_paths, parse_sync_rule
from tests.support.syncer.tenant_views import view

RULES, OBJECTS_EACH = 500, 20
SEEDS = range(20261128, 20261133)
WORDS = ("a", "b", "c", "port", "ref", "name", "namespace", "hostPath", "privileged", "items")
HOSTILE = ("hostNetwork", "privileged", "serviceAccountName", "hostPath")
WRITTEN_BELOW = "written below"
"""Value that a controller of the super cluster has written into unlisted fields."""
OTHER_ROOT = "default-ffffff-other-web"


def generate_paths(draw: random.Random) -> list[str]:
    """Return paths that do not contradict each other: one form for each first field."""
    if draw.random() < 0.2:
        return [draw.choice(("spec.*", "spec.**"))]
    found = []
    for word in draw.sample(WORDS[:5], draw.randint(1, 4)):
        tail = draw.choice(("", ".*", ".**", ".b", "[].b", "[].c.**", ".c.port"))
        found.append(f"spec.{word}{tail}")
    return found


def generate_rule(draw: random.Random, number: int) -> SyncRule:
    """Return a rule with some fields and some references."""
    kinds = draw.choice((["Service"], ["ConfigMap"], ["Secret", "Service"]))
    fields = generate_paths(draw)
    references: list[Any] = [
        {"path": f"spec.to{draw.choice(('', '[]'))}", "kinds": kinds},
        {"path": "spec.secretName", "kinds": ["Secret"], "form": "Name"},
    ]
    body = {
        "metadata": {"name": f"r{number}", "uid": "u"},
        "spec": {
            "resource": {
                "group": "example.io",
                "version": "v1",
                "kind": "Widget",
                "plural": "widgets",
            },
            "direction": "Down",
            "fields": fields,
            "references": [] if fields[0].startswith("spec.*") else references,
        },
    }
    return parse_sync_rule(body)


def generate_value(draw: random.Random, depth: int = 0) -> Any:
    """Return any JSON value, with hostile names in it."""
    form = draw.randint(0, 5 if depth < 4 else 2)
    if form <= 2:
        return draw.choice(("x", 7, True, None, "", OTHER_ROOT, "kube-system"))
    if form == 3:
        return [generate_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(WORDS): generate_value(draw, depth + 1) for _ in range(draw.randint(0, 3))}


def generate_reference(draw: random.Random) -> Any:
    """Return a reference, often a well-formed one."""
    if draw.random() < 0.2:
        return generate_value(draw)
    found = {"name": draw.choice(("web", "vc-token-x", "", 3))}
    if draw.random() < 0.5:
        found["namespace"] = draw.choice((OTHER_ROOT, "kube-system", "shop"))
    if draw.random() < 0.5:
        found["kind"] = draw.choice(("Service", "ConfigMap", "Secret", "Pod"))
    if draw.random() < 0.2:
        found["group"] = draw.choice(("", "apps"))
    return found


def generate_allowed(draw: random.Random, rule: SyncRule) -> dict[str, Any]:
    """Return a spec that fits the fields of a rule."""
    spec: dict[str, Any] = {}
    for path in rule.spec.fields:
        holder, parts = spec, path.split(".")[1:]
        for index, part in enumerate(parts):
            name, is_last = part.removesuffix("[]"), index == len(parts) - 1
            if part in ("*", "**"):
                holder["k"] = draw.choice(("v", 3, True))
                if draw.random() < 0.2:
                    holder[draw.choice(HOSTILE)] = draw.choice(("admin", True))
            elif is_last:
                holder[name] = draw.choice(("v", 3))
            elif part.endswith("[]"):
                holder[name] = [{}]
                holder = holder[name][0]
            else:
                holder[name] = {}
                holder = holder[name]
    return spec


def generate_object(draw: random.Random, rule: SyncRule) -> dict[str, Any]:
    """Return a tenant object: one that fits the rule, one of any shape, or a mixture."""
    spec = generate_allowed(draw, rule) if draw.random() < 0.7 else {}
    for _ in range(draw.choice((0, 0, 1, 3))):
        spec[draw.choice((*WORDS, "secretName"))] = generate_value(draw)
    if draw.random() < 0.6:
        found = [generate_reference(draw) for _ in range(draw.randint(0, 2))]
        spec["to"] = found if draw.random() < 0.5 else generate_reference(draw)
    body: dict[str, Any] = {
        "apiVersion": "example.io/v1",
        "kind": "Widget",
        "metadata": {
            "name": "w",
            "namespace": "web",
            "uid": "w-uid",
            "finalizers": ["example.io/hold"],
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "p"}],
        },
        "spec": spec,
        "status": {"secret": "s"},
    }
    if draw.random() < 0.1:
        body[draw.choice(("data", "roleRef", "rules"))] = generate_value(draw)
    return body


def iterate_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf with its path, without the numbers of items."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from iterate_leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from iterate_leaves(item, f"{path}[]")
    else:
        yield path, value


def build_pattern(path: str) -> re.Pattern[str]:
    """Return the paths of leaves that a path of a rule allows, written without the product."""
    text = re.escape(path)
    if path.endswith(".**"):
        return re.compile(text.removesuffix(r"\.\*\*") + r"([.\[].*)?")
    if path.endswith(".*"):
        return re.compile(text.removesuffix(r"\.\*") + r"\.[^.\[]+")
    return re.compile(text + r"(\[\])?")


def generate_live(draw: random.Random, twin: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the super cluster: an earlier twin to which a controller has added."""
    live: dict[str, Any] = copy.deepcopy(twin)
    live["metadata"] |= {"uid": "below", "resourceVersion": "7"}
    live["status"] = {"phase": WRITTEN_BELOW}

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for inner in list(value.values()):
                add(inner)
            if draw.random() < 0.3:
                value["below"] = WRITTEN_BELOW
        elif isinstance(value, list):
            for item in value:
                add(item)
            if draw.random() < 0.3:
                draw.shuffle(value)

    add(live.setdefault("spec", {}))
    return live


def get_content(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that are not the syncer's own."""
    own = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in body.items() if name not in own}


def check_leaves(content: dict[str, Any], rule: SyncRule, root: str, own: set[str]) -> None:
    """Check that a rule names every leaf of a twin, and that no namespace is foreign."""
    patterns = [build_pattern(path) for path in list_body_paths(rule.spec)]
    for path, value in iterate_leaves(content):
        assert any(each.fullmatch(path) for each in patterns), path
        assert not CLOSED_FIELDS & set(re.split(r"[.\[\]]+", path)), path
        if rule.spec.references and re.fullmatch(r"spec\.to(\[\])?\.namespace", path):
            # An empty namespace is that of the object itself, as an absent one.
            assert value == "" or (value in own and value.startswith(root))


@pytest.mark.parametrize("seed", SEEDS)
def test_10000_generated_objects_reach_the_super_cluster_within_their_rule(seed: int):
    """Every leaf of each twin is one that the rule names. No namespace is another tenant's.

    A change of the twin keeps the unlisted fields of the super cluster, and adds nothing else.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret
    tenant_view, passed, refused, changed = view(), 0, 0, 0
    tenant = tenant_view.tenant
    own = {
        names.build_super_namespace(tenant.root, tenant.uid, each)
        for each in ("web", "shop", "x", "kube-system", OTHER_ROOT)
    }
    for number in range(RULES):
        rule = generate_rule(draw, number)
        if find_problem(rule) is not None:
            continue
        row = build_ruled_kinds([rule], tenant).down["Widget"]
        earlier: dict[str, Any] | None = None
        for _ in range(OBJECTS_EACH):
            body = generate_object(draw, rule)
            try:
                twin = row.build(body, tenant_view)
            except RejectedError:
                refused += 1
                continue
            passed += 1
            assert twin["metadata"].keys() == {"name", "namespace", "labels", "annotations"}
            assert twin["metadata"]["namespace"] in own
            assert "status" not in twin
            check_leaves(get_content(twin), rule, tenant.root, own)
            live, earlier = generate_live(draw, earlier or twin), twin
            put = row.change(live, twin)
            if put is None:
                continue
            changed += 1
            wanted, kept = (sorted(map(str, iterate_leaves(get_content(x)))) for x in (twin, put))
            assert [each for each in kept if WRITTEN_BELOW not in each] == wanted
            assert len(kept) - len(wanted) <= str(live["spec"]).count(WRITTEN_BELOW)
            assert put["status"] == live["status"]
            assert row.change(put, twin) is None
    assert passed + refused == RULES * OBJECTS_EACH
    assert passed > 1_000
    assert refused > 1_000
    assert changed > 500
