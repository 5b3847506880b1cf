"""Generated objects against generated SyncRules: nothing outside of a rule reaches either side."""

import copy
import dataclasses
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from kubeio.cache.store import Store
from syncer.model import diff
from syncer.model.rejections import RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules.custom import hostnames
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from syncer.rules.network.ingress_hosts import BY_HOST_INDEX
from syncer.rules.registry import SyncedKind
from tenancy import names, ownership, wellknown
from tenancy.sync_rules.checks import CLOSED_FIELDS, find_problem
from tenancy.sync_rules.specs import (
    SyncRule,
    list_body_paths,
    list_status_paths,
    parse_sync_rule,
)
from tests.support.syncer.tenant_views import (
    OTHER,
    TENANT,
    add,
    below_labels,
    entry_of,
    network_view,
    policy,
)

RULES, OBJECTS_EACH = 500, 20
SEEDS = range(20261128, 20261131)
SHOWN_SEEDS = (20261131,)
WORDS = ("a", "b", "c", "port", "ref", "name", "namespace", "hostPath", "privileged", "items")
STATUS_WORDS = (*WORDS, "conditions", "to")
HOSTILE = ("hostNetwork", "privileged", "serviceAccountName", "hostPath")
WRITTEN_BELOW = "written below"
"""Value that a controller of the super cluster has written into unlisted fields."""
OTHER_ROOT = "default-ffffff-other-web"
FOREIGN = "default-eeeeee-third-web"
"""Super namespace of another tenant, which no object of this tenant names."""
HIDDEN = "hidden"
"""Value in fields that no rule lists."""
SPACES = ("web", "shop", "x", "kube-system", OTHER_ROOT)
"""Namespaces that the tenant has, or names."""
OFFERED, TAKEN = "team.example", "taken.team.example"
"""Domain that the policy offers, and a host in it that another tenant has."""
HOST_PATHS = ("spec.hosts[]", "spec.lines[].host")
HOSTS = (f"a.{OFFERED}", f"*.{OFFERED}", OFFERED, TAKEN.upper(), "b.example", f"x{OFFERED}", "", 7)


def build_super_namespace(namespace: str) -> str:
    """Return the super namespace of a tenant namespace."""
    return names.build_super_namespace(TENANT.root, TENANT.uid, namespace)


def build_view() -> TenantView:
    """Return a view with two namespaces, and with a host that another tenant has."""
    taken = Store({BY_HOST_INDEX: hostnames.build_index(HOST_PATHS)})
    marks = ownership.build_owner_annotations(OTHER, "web", "u")
    add(taken, "r", namespace=OTHER_ROOT, annotations=marks, spec={"hosts": [TAKEN]})
    found = network_view(
        policy=policy(network={"ingressHosts": [OFFERED]}),
        get_host_stores=lambda: {"Widget": taken},
    )
    spaces = Store()
    for name in ("web", "shop"):
        add(spaces, build_super_namespace(name), labels=below_labels(TENANT, name))
    return dataclasses.replace(found, super_stores={**found.super_stores, "Namespace": spaces})


def generate_paths(
    draw: random.Random, root: str = "spec", words: tuple[str, ...] = WORDS[:5]
) -> list[str]:
    """Return paths that do not contradict each other: one form for each first field."""
    if draw.random() < 0.2:
        return [f"{root}{draw.choice(('.*', '.**'))}"]
    found = []
    for word in draw.sample(words, draw.randint(1, 4)):
        tail = draw.choice(("", ".*", ".**", ".b", "[].b", "[].c.**", ".c.port"))
        found.append(f"{root}.{word}{tail}")
    return found


def generate_status_paths(draw: random.Random) -> dict[str, Any]:
    """Return the fields of a rule about the status."""
    fields = generate_paths(draw, "status", (*WORDS[:5], "conditions"))
    places = draw.choice(([], ["status.to"], ["status.to[]"]))
    return {
        "statusFields": fields,
        "statusReferences": [] if fields[0].startswith("status.*") else places,
        "statusOwner": draw.choice(("SuperCluster", "SuperCluster", "SuperCluster", "Tenant")),
    }


def generate_rule(draw: random.Random, number: int) -> SyncRule:
    """Return a rule with some fields, references and host names, and some fields of the status."""
    kinds = draw.choice((["Service"], ["ConfigMap"], ["Secret", "Service"]))
    fields = generate_paths(draw)
    is_whole = fields[0].startswith("spec.*")
    hosts = draw.sample(HOST_PATHS, draw.choice((0, 0, 1, 2)))
    references: list[Any] = [
        {"path": f"spec.to{draw.choice(('', '[]'))}", "kinds": kinds},
        {"path": "spec.secretName", "kinds": ["Secret"], "form": "Name"},
    ]
    return build_rule(
        number,
        direction="Down",
        fields=fields,
        references=[] if is_whole else references,
        hostnames=[] if is_whole else hosts,
        **generate_status_paths(draw),
    )


def generate_mirror_rule(draw: random.Random, number: int) -> SyncRule:
    """Return a rule that shows objects: to all tenants, in a namespace, or to one owner."""
    fields = generate_paths(draw)
    place: dict[str, Any] = draw.choice(
        (
            {},
            {"mirror": {"sourceNamespace": "infra", "tenantNamespace": "shop"}},
            {"mirrorOwner": {"path": draw.choice(("spec.owner", "spec.owners[]"))}},
        )
    )
    if fields[0].startswith("spec.*"):
        place.pop("mirrorOwner", None)
    status = generate_status_paths(draw)
    status["statusReferences"] = []
    return build_rule(number, direction="Mirror", fields=fields, **place, **status)


def build_rule(number: int, **spec: Any) -> SyncRule:
    """Return a rule for the kind of all objects here."""
    resource = {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}
    body = {
        "metadata": {"name": f"r{number}", "uid": "u"},
        "spec": {"resource": resource, **spec},
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


def generate_allowed(draw: random.Random, paths: Iterable[str]) -> dict[str, Any]:
    """Return the part of an object that fits paths with the same first field."""
    spec: dict[str, Any] = {}
    for path in paths:
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


def generate_hosts(draw: random.Random, rule: SyncRule) -> dict[str, Any]:
    """Return host names at the paths of a rule, mostly offered ones."""
    spec: dict[str, Any] = {}
    for path in rule.spec.hostnames:
        good = draw.random() < 0.7
        found = [draw.choice(HOSTS[:3] if good else HOSTS) for _ in range(draw.randint(1, 2))]
        if path == HOST_PATHS[0]:
            spec["hosts"] = found
        else:
            spec["lines"] = [{"host": each} for each in found]
    return spec


def generate_status(draw: random.Random, rule: SyncRule) -> dict[str, Any]:
    """Return a status that fits a rule, one of any shape, or a mixture."""
    paths = list_status_paths(rule.spec)
    status = generate_allowed(draw, rule.spec.status_fields) if draw.random() < 0.7 else {}
    for _ in range(draw.choice((0, 0, 1, 3))):
        status[draw.choice(STATUS_WORDS)] = generate_value(draw)
    if len(paths) > len(rule.spec.status_fields) and draw.random() < 0.7:
        places = (*map(build_super_namespace, SPACES), FOREIGN, "kube-system")
        found = [{"name": "n", "namespace": draw.choice(places)} for _ in range(2)]
        status["to"] = found if rule.spec.status_references == ("status.to[]",) else found[0]
    if draw.random() < 0.3:
        kinds = draw.sample(("Ready", "Synced", "Bound"), draw.randint(0, 3))
        found = [{"type": kind, "b": "True", HIDDEN: HIDDEN} for kind in kinds]
        status["conditions"] = found
    return status


def generate_source(draw: random.Random, rule: SyncRule) -> dict[str, Any]:
    """Return an object of the super cluster that a rule may show."""
    body = generate_object(draw, rule)
    places = (*map(build_super_namespace, ("web", "shop")), FOREIGN, "infra", "", 3)
    owners = [
        {"kind": "Claim", "name": "c", "namespace": draw.choice(places), "uid": HIDDEN}
        for _ in range(draw.choice((0, 1, 1, 1, 2)))
    ]
    if rule.spec.mirror_owner is not None and draw.random() < 0.9:
        is_list = rule.spec.mirror_owner.path == "spec.owners[]"
        body["spec"] |= {"owners": owners} if is_list else {"owner": [*owners, {}][0]}
    metadata = {"name": "w", "namespace": "infra", "uid": "below", "resourceVersion": "7"}
    for field in ("labels", "annotations"):
        metadata[field] = {f"example.io/{field}": HIDDEN}
    return {**body, "metadata": {**body["metadata"], **metadata}}


def generate_object(draw: random.Random, rule: SyncRule) -> dict[str, Any]:
    """Return a tenant object: one that fits the rule, one of any shape, or a mixture."""
    spec = generate_allowed(draw, rule.spec.fields) if draw.random() < 0.7 else {}
    for _ in range(draw.choice((0, 0, 1, 3))):
        spec[draw.choice((*WORDS, "secretName"))] = generate_value(draw)
    if draw.random() < 0.6:
        found = [generate_reference(draw) for _ in range(draw.randint(0, 2))]
        spec["to"] = found if draw.random() < 0.5 else generate_reference(draw)
    if rule.spec.hostnames and draw.random() < 0.9:
        spec |= generate_hosts(draw, rule)
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
        "status": {"secret": "s", **generate_status(draw, rule)},
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


def generate_live(draw: random.Random, twin: dict[str, Any], rule: SyncRule) -> dict[str, Any]:
    """Return an object of the super cluster: an earlier twin to which a controller has added."""
    live: dict[str, Any] = copy.deepcopy(twin)
    live["metadata"] |= {"uid": "below", "resourceVersion": "7"}
    live["status"] = {"phase": WRITTEN_BELOW, **generate_status(draw, rule)}

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
    check_listed(content, list_body_paths(rule.spec))
    for path, value in iterate_leaves(content):
        assert not CLOSED_FIELDS & set(re.split(r"[.\[\]]+", path)), path
        if rule.spec.references and re.fullmatch(r"spec\.to(\[\])?\.namespace", path):
            # An empty namespace is that of the object itself, as an absent one.
            assert value == "" or (value in own and value.startswith(root))
    check_hosts(content, rule)


def check_listed(content: Mapping[str, Any], paths: Iterable[str]) -> None:
    """Check that a path names every leaf."""
    patterns = [build_pattern(path) for path in paths]
    for path, _ in iterate_leaves(content):
        assert any(each.fullmatch(path) for each in patterns), path


def check_hosts(content: Mapping[str, Any], rule: SyncRule) -> None:
    """Check that each host of a twin is offered and free, and that there is one."""
    paths = [path.removesuffix("[]") for path in rule.spec.hostnames]
    hosts = [value for path, value in iterate_leaves(content) if path.removesuffix("[]") in paths]
    assert any(hosts) or not paths
    for host in filter(None, hosts):
        bare = host.lower().removeprefix("*.")
        assert bare == OFFERED or bare.endswith(f".{OFFERED}")
        assert bare != TAKEN


def check_status(
    row: SyncedKind, rule: SyncRule, own: dict[str, Any], live: dict[str, Any]
) -> bool:
    """Check the write of a status to the tenant. Return whether there is one."""
    shown = row.show_status(own, live) if row.show_status is not None else live
    if row.build_status_up is None:
        assert not rule.shows_status
        return False
    patch = row.build_status_up(own, shown, ())
    if patch is None:
        return False
    assert patch.keys() == {"metadata", "status"}
    assert patch["metadata"] == {"uid": own["metadata"]["uid"]}
    written = diff.apply_merge_patch({}, {"status": patch["status"]})
    kept, found = (each["status"].get("conditions") for each in (own, written))
    if isinstance(kept, list) and isinstance(found, list):  # with those of the tenant
        written["status"]["conditions"] = [each for each in found if each not in kept]
    check_listed(written, list_status_paths(rule.spec))
    for path, value in iterate_leaves(written):
        if rule.spec.status_references and re.fullmatch(r"status\.to(\[\])?\.namespace", path):
            assert value in (*SPACES, "another-namespace")
    after = {**own, "status": diff.apply_merge_patch(own["status"], patch["status"])}
    assert row.build_status_up(after, shown, ()) is None, "the write is complete"
    listed = {re.split(r"[.\[]", path)[1] for path in list_status_paths(rule.spec)}
    for name, value in own["status"].items():
        is_plain = "*" in listed and not isinstance(value, dict | list)
        if not (name in listed or name in shown["status"] or "**" in listed or is_plain):
            assert after["status"][name] == value, "the tenant's own field stays"
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_10000_generated_objects_reach_the_super_cluster_within_their_rule(seed: int):
    """Every leaf of each twin is one that the rule names. No namespace is another tenant's.

    A change of the twin keeps the unlisted fields of the super cluster, and adds nothing else.
    Every leaf of a status that is written to the tenant is one that the rule names, too.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret
    tenant_view, passed, refused, changed, written, with_hosts = build_view(), 0, 0, 0, 0, 0
    tenant = tenant_view.tenant
    own = set(map(build_super_namespace, SPACES))
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
            with_hosts += bool(rule.spec.hostnames)
            live, earlier = generate_live(draw, earlier or twin, rule), twin
            written += check_status(row, rule, body, live)
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
    assert written > 500
    assert with_hosts > 500


@pytest.mark.parametrize("seed", SHOWN_SEEDS)
def test_10000_generated_objects_are_shown_within_their_rule(seed: int):
    """Every leaf that a tenant sees is one that the rule names, and no owner is another tenant."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    tenant_view, written, owned = build_view(), 0, 0
    for number in range(RULES):
        rule = generate_mirror_rule(draw, number)
        assert find_problem(rule) is None
        mirror = build_ruled_kinds([rule], TENANT).mirrors["Widget"]
        for _ in range(OBJECTS_EACH):
            source = generate_source(draw, rule)
            shown = mirror.build(source, tenant_view)
            metadata = shown["metadata"]
            assert metadata.pop("namespace", "shop") == "shop"
            assert metadata == {
                "name": "w",
                "labels": {wellknown.MIRRORED: "true"},
                "annotations": {wellknown.UID: "below"},
            }
            assert "status" not in shown
            check_listed(get_content(shown), list_body_paths(rule.spec))
            if rule.spec.mirror_owner is not None:
                places = [
                    value
                    for path, value in iterate_leaves(shown)
                    if re.fullmatch(r"spec\.owners?(\[\])?\.namespace", path)
                ]
                assert set(places) <= {"web", "shop", "another-namespace"}
                is_selected = mirror.is_selected(entry_of(source), tenant_view)
                assert is_selected == (len(places) == 1 and places[0] in ("web", "shop"))
                owned += is_selected
            own = {**shown, "status": generate_status(draw, rule) | {"secret": "s"}}
            own["metadata"]["uid"] = "own"
            written += check_status(mirror.row, rule, own, source)
    assert written > 500
    assert owned > 500
