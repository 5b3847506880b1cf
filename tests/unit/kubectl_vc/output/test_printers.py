import json

import yaml

from kubectl_vc.output import printers
from kubectl_vc.output.printers import Format
from tenancy.resources import PODS, VIRTUAL_CLUSTERS

BODY = {
    "apiVersion": "v1",
    "kind": "X",
    "metadata": {"name": "a", "managedFields": [1]},
    "spec": {"é": "no"},
}


def test_columns_are_aligned_and_lines_have_no_blanks_at_their_end():
    assert printers.table(("name", "age"), [("a", "3d"), ("long-name", "")]) == (
        "NAME        AGE\na           3d\nlong-name   <none>\n"
    )


def test_documents_keep_what_they_hold_but_for_managed_fields():
    plain = {**BODY, "metadata": {"name": "a"}}
    assert json.loads(printers.document(BODY, Format.JSON)) == plain
    assert yaml.safe_load(printers.document(BODY, Format.YAML)) == plain
    many = printers.listed([BODY])
    assert yaml.safe_load(printers.document(many, Format.YAML))["items"] == [plain]
    assert json.loads(printers.document(many, Format.JSON))["kind"] == "List"


def test_printing_changes_no_object():
    printers.document(BODY, Format.JSON)
    assert BODY["metadata"]["managedFields"] == [1]


def test_names_carry_the_group_as_kubectl_prints_it():
    assert printers.full_name(VIRTUAL_CLUSTERS, "web") == "virtualcluster.tenancy.x-k8s.io/web"
    assert printers.full_name(PODS, "web") == "pod/web"
