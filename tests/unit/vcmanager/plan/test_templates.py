import json
import re

import jinja2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tenancy.specs import parse_cluster_version
from tests.support.vcmanager.factories import wish
from vcmanager.plan import control_plane, service_cidrs, templates
from vcmanager.plan.templates import TemplateError, build_shape

SHAPE = build_shape(("ConfigMap", "x"))
TEMPLATE = """\
kind: ConfigMap
metadata: {name: x}
data:
  key: {{ value }}
  flag: {{ '--a=' ~ value }}
"""

PAYLOADS = [
    "plain",
    "",
    " leading and trailing ",
    "yes",
    "null",
    "~",
    "0x1F",
    "1e3",
    "2026-01-01",
    "{{ 7 * 7 }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{# comment #}",
    "a\nkind: Secret",
    "a\n---\nkind: Secret\nmetadata: {name: evil}",
    "a\r\nb",
    "a\u2028b\u2029c\u0085d",
    "\x00\x01\x1b[31m",
    "\x7f\x9f",
    '"; echo',
    "'",
    '"',
    "\\",
    '\\"',
    "a: b",
    "- a",
    "&anchor *alias",
    "!!python/object/apply:os.system ['id']",
    "!!binary aGk=",
    "<<: *x",
    "# comment",
    "%YAML 1.1",
    "{a: b}",
    "[a]",
    "|\n  block",
    "> folded",
    "\ufeffbom",
    "\U0001f600\U0001d4b3",
    "${HOME} $(id) `id`",
    "a" * 4096,
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_value_becomes_one_leaf_and_nothing_else(payload: str):
    made = templates.render_template(TEMPLATE, {"value": payload}, name="t", shape=SHAPE)
    assert made == [
        {
            "kind": "ConfigMap",
            "metadata": {"name": "x"},
            "data": {"key": payload, "flag": f"--a={payload}"},
        }
    ]


@settings(deadline=None)
@given(value=st.text())
def test_any_text_survives(value: str):
    made = templates.render_template(TEMPLATE, {"value": value}, name="t", shape=SHAPE)
    assert made[0]["data"]["key"] == value


@settings(deadline=None)
@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_survives(value):
    template = "kind: ConfigMap\nmetadata: {name: x}\ndata: {{ value }}\n"
    made = templates.render_template(template, {"value": value}, name="t", shape=SHAPE)
    assert made[0]["data"] == value


def test_half_a_character_is_refused():
    with pytest.raises(TemplateError, match="does not render to YAML"):
        templates.render_template(TEMPLATE, {"value": "\ud83d"}, name="t", shape=SHAPE)


@pytest.mark.parametrize("field", ["registry", "size", "class_name", "flag"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_whole_control_plane_differs_only_in_the_intended_leaves(field: str, payload: str):
    """Each text that someone may write goes where it belongs, and nowhere else."""
    marker = "zzmarkerzz"
    slice_ = service_cidrs.ServiceRange(service_cidrs.ip_network("10.96.8.0/22"))

    def plan(text: str):
        version = {"kubernetesVersion": "1.36"}
        registry = "r"
        if field == "registry":
            registry = text or "r"
        elif field == "flag":
            version["extraArgs"] = {"apiServer": {"event-ttl": text}}
        else:
            storage = {"size": text} if field == "size" else {"size": "1Gi", "className": text}
            version["etcdStorage"] = storage
        spec = controlplane_spec(version)
        made = control_plane.build_plan(wish(version=spec, registry=registry), slice_)
        etcd = next(each for each in made.workloads if each["metadata"]["name"] == "etcd")
        container = etcd["spec"]["template"]["spec"]["containers"][0]
        number = re.compile(r"--quota-backend-bytes=[1-9][0-9]*")  # derived from a readable size
        container["args"] = [each for each in container["args"] if not number.fullmatch(each)]
        return [*made.services, *made.workloads, *made.claims]

    expected = replaced(plan(marker), marker, payload)
    if field == "class_name" and not payload:
        expected = plan("")
    if field == "registry":
        expected = replaced(plan(marker), marker, (payload or "r").rstrip("/"))
    assert plan(payload) == expected


def controlplane_spec(version: dict):
    return parse_cluster_version({"metadata": {"name": "v"}, "spec": version})


def replaced(value, marker: str, text: str):
    if isinstance(value, dict):
        return {key: replaced(each, marker, text) for key, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, marker, text) for each in value]
    return value.replace(marker, text) if isinstance(value, str) else value


def test_what_is_not_given_is_an_error_that_names_it():
    with pytest.raises(TemplateError, match="'nothing' is undefined"):
        templates.render_template("a: {{ nothing }}", {}, name="t", shape=SHAPE)


def test_the_sandbox_keeps_templates_from_python():
    template = "a: {{ value.__class__.__mro__ }}"
    with pytest.raises(TemplateError):
        templates.render_template(template, {"value": "x"}, name="t", shape=SHAPE)


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("kind: [", "does not render to YAML"),
        ("{% if %}", "cannot be rendered"),
        ("- a", "renders list where an object was expected"),
        (
            "kind: Secret\nmetadata: {name: x}",
            "renders Secret x in addition, and lacks ConfigMap x",
        ),
        ("", "renders nothing in addition, and lacks ConfigMap x"),
        (
            "kind: ConfigMap\nmetadata: {name: x}\n---\nkind: ConfigMap\nmetadata: {name: x}\n",
            "renders ConfigMap x twice",
        ),
        ("kind: ConfigMap\nkind: Secret\nmetadata: {name: x}", "'kind' is duplicated"),
        ("a: !!python/name:os.system ''", "does not render to YAML"),
    ],
)
def test_a_malformed_template_is_named(template: str, sentence: str):
    with pytest.raises(TemplateError, match=sentence) as caught:
        templates.render_template(template, {}, name="1.36/etcd", shape=SHAPE)
    assert "1.36/etcd" in str(caught.value)


@settings(deadline=None)
@given(value=st.text())
def test_scalars_are_json_and_yaml_on_one_line(value: str):
    text = templates.encode_scalar(value)
    assert text.isascii()
    assert "\n" not in text
    assert yaml.safe_load(text) == value


def test_scalars_of_other_kinds_are_json():
    assert json.loads(templates.encode_scalar({"a": [1, True, None]})) == {"a": [1, True, None]}
    with pytest.raises(jinja2.UndefinedError):
        templates.encode_scalar(jinja2.StrictUndefined(name="x"))
