"""Which expressions are sent to the API server, in what form, and what its refusal means."""

import pytest

from tests.unit.vcmanager.plan.access.test_authentication_rules import GOOD, parse
from vcmanager.plan.access import expression_check
from vcmanager.plan.access.expression_check import AuthExpression

WHOLE = {
    **GOOD,
    "claimValidationRules": [{"claim": "a"}, {"expression": "claims.b == 'c'"}],
    "claimMappings": {
        "username": {"expression": "claims.u"},
        "groups": {"expression": "claims.g"},
        "uid": {"expression": "claims.i"},
        "extra": [{"key": "a.b/c", "valueExpression": "claims.e"}],
    },
    "userValidationRules": [{"expression": "user.username != ''"}],
}


def test_every_expression_is_found():
    found = expression_check.list_expressions(parse(WHOLE), 0)
    assert [(each.field.removeprefix("spec.auth.jwt[0]."), each.variable) for each in found] == [
        ("claimValidationRules[1].expression", "claims"),
        ("claimMappings.username.expression", "claims"),
        ("claimMappings.groups.expression", "claims"),
        ("claimMappings.uid.expression", "claims"),
        ("claimMappings.extra[0].valueExpression", "claims"),
        ("userValidationRules[0].expression", "user"),
    ]
    assert [each.is_condition for each in found] == [True, False, False, False, False, True]
    assert expression_check.list_expressions(parse(GOOD), 0) == []


def test_a_condition_is_also_a_validation():
    expressions = expression_check.list_expressions(parse(WHOLE), 0)
    spec = expression_check.build_policy(expressions)["spec"]
    assert len(spec["variables"]) == 2 * len(expressions)
    texts = [each["expression"] for each in spec["validations"]]
    assert [text != "true" for text in texts] == [False, True, False, False, False, False, True]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("object.a == 'b'", "object"),
        ("claims.a == request.name", "request"),
        ("variables.x", "variables"),
        ("[params]", "params"),
        ("claims.object == 'a'", ""),
        ("claims.a == 'object'", ""),
        ('claims.a == "it\'s" + "request"', ""),
        ("claims.a == r'\\' && request.b", "request"),
        ("claims.a == '''object\n'x' '''", ""),
        ("true // request", ""),
        ("claims.objects", ""),
    ],
)
def test_variables_of_policies_are_not_those_of_authentication(text, name):
    made = AuthExpression("f", text, "claims", is_condition=True)
    assert expression_check.find_foreign_name(made) == name


@pytest.mark.parametrize(
    ("field", "index"),
    [
        ("spec.variables[0].expression", 0),
        ("spec.variables[3].expression", 1),
        ("spec.validations[2].expression", 1),
        ("spec.validations[0].expression", 0),
        ("metadata.name", 0),
        ("spec.variables[99].expression", 0),
    ],
)
def test_a_refusal_names_the_field(field, index):
    expressions = expression_check.list_expressions(parse(WHOLE), 0)
    cause = {"field": field, "message": "Invalid value: compilation failed: ERROR: <input>:\n  x"}
    text = expression_check.describe_refusal(expressions, [cause], "all of it")
    assert text.startswith(expressions[index].field)
    if field.startswith("spec") and "99" not in field and field != "spec.validations[0].expression":
        assert text.endswith("ERROR: <input>: x")
