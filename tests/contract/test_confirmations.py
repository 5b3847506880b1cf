"""Every confirmation reads status fields: their writers, the CRDs and the command line agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from kubectl_vc.target import confirm
from kubectl_vc.verbs import confirm_deletes
from kubeio.cache.store import Entry, parse_entry
from syncer.clusters import target_conditions
from syncer.safety import pod_loss_guard, store_guard
from syncer.tenants import conditions
from tenancy import names, super_clusters, wellknown
from tenancy.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS, Resource
from tests.support.syncer.store_guards import KNOWN, OTHER, STORE, TENANT, sight, watched
from tests.support.vcmanager.factories import fake_means
from tools.testbed.artifacts import product
from vcmanager.targets import super_cluster
from vcmanager.targets.overlaps import PeerClusters, read_status

CHART = product.REPOSITORY / "charts" / "virtual-cluster"
CRDS = CHART / "files" / "crds"
CLI = product.REPOSITORY / "kubectl_vc"
MATCHES_TEXT = {
    "debug/redaction.py": "forms of secrets in logs and objects",
    "output/durations.py": "values of flags",
    "output/cli_errors.py": "refusals by the API server, which has no field for user and verb",
    "connect/forwarder.py": "the port that kubectl port-forward announces",
    "inspection/logs.py": "lines of the syncer's log, by the name of a root namespace",
    "target/manifests.py": "values of flags",
    "target/node_groups.py": "quantities and versions in annotations and images",
    "verbs/default_versions.py": "names of ClusterVersions",
    "verbs/create_manifests.py": "passwords in URLs",
    "upgrade/comparison.py": "flags of bundles, and versions of Kubernetes",
    "upgrade/deprecated_apis.py": "metrics of a tenant's API server",
}
"""Modules of the command line that may match text, and which text that is."""


class Api:
    """Keeps what is applied."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}

    async def apply(self, _: object, body: dict[str, Any], **__: object) -> None:
        self.status = body["status"]


def entry(name: str, namespace: str = "", status: Mapping[str, Any] | None = None) -> Entry:
    metadata = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"}
    return parse_entry(orjson.dumps({"metadata": metadata, "status": status or {}}))


def stored(resource: Resource, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person's command reads of a status: what the CRD knows, with other messages."""
    crd = yaml.safe_load((CRDS / f"{resource.plural}.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    kept = pruned(schema, status)
    for condition in kept["conditions"]:
        condition["message"] = "Words that were changed."
    return {"metadata": {"name": "c2", "uid": "u"}, "status": kept}


def pruned(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value without the fields that a schema does not have, as an API server does."""
    if isinstance(value, list):
        return [pruned(schema["items"], each) for each in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    return {key: pruned(known[key], each) for key, each in value.items() if key in known}


async def held_status(seen: store_guard.StoreObservation) -> dict[str, Any]:
    """Return what the syncer writes of a tenant whose store is another one."""
    found, *_ = watched(KNOWN, seen)
    await found.initialize(twin_uid="", stamps=())
    await found.refresh()
    assert found.is_held
    api = Api()
    wanted = [conditions.build_deletes_held(message=found.message, generation=1)]
    held = conditions.held_store(found.store)
    await conditions.write_conditions(api, entry("vc", "default"), wanted, store=held)  # type: ignore[arg-type]
    return api.status


@pytest.mark.parametrize(
    ("seen", "uid"),
    [
        (sight(uid=OTHER, revision=900, epoch=9), OTHER),
        (sight(revision=99), STORE),
        (sight(epoch=2), STORE),
        (sight(epoch=0, epoch_revision=0), STORE),
    ],
)
async def test_the_store_that_the_syncer_holds_is_the_one_that_is_confirmed(
    seen: store_guard.StoreObservation, uid: str
):
    body = stored(VIRTUAL_CLUSTERS, await held_status(seen))
    assert confirm_deletes.held_store("it", body) == uid


async def test_a_store_without_kube_system_cannot_be_confirmed():
    body = stored(VIRTUAL_CLUSTERS, await held_status(sight(uid="")))
    with pytest.raises(confirm_deletes.CliError, match="has no UID"):
        confirm_deletes.held_store("it", body)


def test_the_condition_names_the_command_in_no_more_words_than_it_may_have():
    for seen in (sight(uid=OTHER), sight(uid=""), sight(epoch=0, epoch_revision=0)):
        problem = store_guard.find_store_problem(KNOWN, seen)
        assert problem is not None
        text = store_guard.format_held_message(problem, seen.uid, TENANT.name)
        assert f"kubectl vc confirm-deletes {TENANT.name}" in text
        assert len(text) < 1024


async def test_the_loss_that_the_syncer_holds_is_the_one_that_is_confirmed():
    found = pod_loss_guard.PodLossGuard(
        name="c2", identity=STORE, count_present=lambda: 0, on_changed=lambda: None
    )
    found.replace_missing(
        "tenant", [f"pod-{number}" for number in range(pod_loss_guard.MIN_MISSING_PODS)]
    )
    api = Api()
    await target_conditions.write_target_conditions(
        api, entry("c2"), problem="", pod_loss_guard=found
    )  # type: ignore[arg-type]
    word, _ = confirm.build_confirmation("c2", stored(SUPER_CLUSTERS, api.status))
    assert pod_loss_guard.is_state(word)
    assert found.confirm_losses(word)
    assert not found.is_held


def test_the_cluster_that_vc_manager_finds_is_the_one_that_is_confirmed():
    body = {"metadata": {"name": "c2", "uid": "u"}, "spec": {}, "status": {"identity": STORE}}
    reason, _ = super_cluster._find_identity_problem(looked(body), OTHER, "home-uid") or ("", "")
    condition = {"type": "Reachable", "status": "False", "reason": reason, "message": "m"}
    status = {"conditions": [condition], super_cluster._OBSERVED: OTHER}
    word, _ = confirm.build_confirmation("c2", stored(SUPER_CLUSTERS, status))
    assert names.is_uid(word)
    body["metadata"]["annotations"] = {wellknown.CONFIRM_LOSSES: word}
    assert super_cluster._find_identity_problem(looked(body), OTHER, "home-uid") is None


def looked(body: dict[str, Any]) -> super_cluster._TargetReconcile:
    return super_cluster._TargetReconcile(
        means=fake_means(None),
        body=body,
        name="c2",
        spec=super_clusters.SuperClusterSpec(),
        old_status=read_status(body),
        peer_clusters=PeerClusters("c2", [body]),
        conditions=super_cluster.TargetConditions(),
        status_fields={},
    )


@pytest.mark.parametrize("field", [conditions.HELD_STORE, target_conditions.LOSSES])
def test_the_gate_lets_the_syncer_write_the_field(field: str):
    """Otherwise the API server refuses the whole status, conditions included."""
    policy = CHART / "templates" / "syncer-policy.yaml"
    lists = re.findall(r"key in (\[[^\]]*\])", policy.read_text())
    assert sum(f"'{field}'" in each for each in lists) == 2, "what is there, and what was there"


# --- messages are for people ----------------------------------------------------------------------


def modules() -> list[Path]:
    return sorted(CLI.rglob("*.py"))


def imports_re(tree: ast.AST) -> bool:
    return any(
        (isinstance(node, ast.Import) and any(each.name == "re" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "re")
        for node in ast.walk(tree)
    )


def read_messages(tree: ast.AST) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Yield each expression that reads `message` of a document, with what it stands in."""
    stack: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while stack:
        node, around = stack.pop()
        is_get = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and bool(node.args)
            and _is_message(node.args[0])
        )
        if is_get or (isinstance(node, ast.Subscript) and _is_message(node.slice)):
            yield node, around
        stack += [(each, [node, *around]) for each in ast.iter_child_nodes(node)]


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "message"


def takes_apart(around: list[ast.AST]) -> bool:
    """Return whether an expression around a message cuts it up or searches it.

    `split` without an argument joins lines and cuts nothing out.
    """
    for node in around:
        if isinstance(node, ast.stmt):
            return False
        if isinstance(node, ast.Compare) and any(
            isinstance(each, ast.In | ast.NotIn) for each in node.ops
        ):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in CUTS or (name in ("split", "rsplit") and node.args):
                return True
    return False


CUTS = {
    *("search", "match", "fullmatch", "findall", "finditer", "partition", "rpartition"),
    *("startswith", "endswith", "find", "index", "removeprefix", "removesuffix"),
}


def test_no_module_of_the_command_line_matches_a_condition_message():
    """Otherwise a better wording would break a command."""
    found = set()
    for path in modules():
        name, tree = path.relative_to(CLI).as_posix(), ast.parse(path.read_text())
        if imports_re(tree):
            found.add(name)
            assert not {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} & {
                "conditions",
                "super_clusters",
            }, f"{name} matches text and reads conditions"
        cut = [node.lineno for node, around in read_messages(tree) if takes_apart(around)]
        assert name in MATCHES_TEXT or not cut, f"{name}: takes a message apart in lines {cut}"
    assert found == set(MATCHES_TEXT)


@pytest.mark.parametrize(
    ("code", "is_caught"),
    [
        ("_UID.search(str(held.get('message') or ''))", True),
        ("named(held['message'].partition('(')[2])", True),
        ("'state' in held['message']", True),
        ("held.get('message').split('kube-system ')", True),
        ("' '.join(str(held.get('message') or '').split())", False),
        ("print(held['message'])", False),
    ],
)
def test_the_check_finds_what_it_is_for(code: str, is_caught: bool):
    assert [takes_apart(around) for _, around in read_messages(ast.parse(code))] == [is_caught]
