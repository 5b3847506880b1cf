import json

import yaml

from kubectl_vc.output import printers
from kubectl_vc.output.printers import OutputFormat
from tenancy.resources import PODS, VIRTUAL_CLUSTERS

BODY = {
    "apiVersion": "v1",
    "kind": "X",
    "metadata": {"name": "a", "managedFields": [1]},
    "spec": {"é": "no"},
}


def test_columns_are_aligned_and_lines_have_no_blanks_at_their_end():
    assert printers.format_table(("name", "age"), [("a", "3d"), ("long-name", "")]) == (
        "NAME        AGE\na           3d\nlong-name   <none>\n"
    )


def test_documents_keep_what_they_hold_but_for_managed_fields():
    plain = {**BODY, "metadata": {"name": "a"}}
    assert json.loads(printers.format_document(BODY, OutputFormat.JSON)) == plain
    assert yaml.safe_load(printers.format_document(BODY, OutputFormat.YAML)) == plain
    many = printers.build_list([BODY])
    assert yaml.safe_load(printers.format_document(many, OutputFormat.YAML))["items"] == [plain]
    assert json.loads(printers.format_document(many, OutputFormat.JSON))["kind"] == "List"


def test_printing_changes_no_object():
    printers.format_document(BODY, OutputFormat.JSON)
    assert BODY["metadata"]["managedFields"] == [1]


def test_names_carry_the_group_as_kubectl_prints_it():
    assert (
        printers.format_full_name(VIRTUAL_CLUSTERS, "web") == "virtualcluster.tenancy.x-k8s.io/web"
    )
    assert printers.format_full_name(PODS, "web") == "pod/web"
