"""Check of the CEL expressions of `spec.auth` by the tenant's own API server.

Pure. Owns the ValidatingAdmissionPolicy that is sent as a dry run, and the meaning of its answer.
An API server compiles the expressions of a created policy, with the functions that it also has for
authentication. So the same program judges the expression that later uses it, and nothing is stored.

Hazard: an expression is text inside of another expression. Text that closes a bracket early would
pass the check and not be the expression that was checked. Each expression is therefore sent in two
kinds of brackets, and no text closes both.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenancy.access.specs import AuthSpec

Manifest = dict[str, Any]

_NAME_PREFIX = "authentication-check-"
_VARIABLES = {"claims": "{'claim': object}", "user": "request.userInfo"}
"""Expression of the type that a variable has: claims are a map of text to anything."""
_LITERALS_AND_COMMENTS = re.compile(
    r"""[rR]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*""",
    re.DOTALL,
)
_FOREIGN_NAMES = re.compile(
    r"(?<![.\w])(?<!\.\s)(?:object|oldObject|request|params|namespaceObject|authorizer|variables)\b"
)
_CAUSE_FIELD = re.compile(r"spec\.(?P<list>variables|validations)\[(?P<number>[0-9]+)\]")


@dataclass(frozen=True, slots=True)
class AuthExpression:
    """One expression of `spec.auth`."""

    field: str
    text: str
    variable: str
    """The variable that it may use: claims or user."""
    is_condition: bool
    """Whether its type must be bool."""


def list_expressions(auth: AuthSpec, number: int) -> list[AuthExpression]:
    """Return all expressions of an issuer, in the order of their fields."""
    return [each for each in _iterate_expressions(auth, number) if each.text]


def find_foreign_name(expression: AuthExpression) -> str:
    """Return a variable of policies that authentication does not have. Empty if there is none.

    The API server would compile it in the check, and refuse it in the configuration.
    """
    plain = _LITERALS_AND_COMMENTS.sub("''", expression.text)
    match = _FOREIGN_NAMES.search(plain)
    return match[0] if match else ""


def _iterate_expressions(auth: AuthSpec, number: int) -> Iterator[AuthExpression]:
    where, each = f"spec.auth.jwt[{number}]", auth.jwt[number]
    for index, rule in enumerate(each.claim_validation_rules):
        field = f"{where}.claimValidationRules[{index}].expression"
        yield AuthExpression(field, rule.expression, "claims", is_condition=True)
    mappings = each.claim_mappings
    for name, mapping in (
        ("username", mappings.username),
        ("groups", mappings.groups),
        ("uid", mappings.uid),
    ):
        field = f"{where}.claimMappings.{name}.expression"
        yield AuthExpression(field, mapping.expression, "claims", is_condition=False)
    for index, extra in enumerate(mappings.extra):
        field = f"{where}.claimMappings.extra[{index}].valueExpression"
        yield AuthExpression(field, extra.value_expression, "claims", is_condition=False)
    for index, user_rule in enumerate(each.user_validation_rules):
        field = f"{where}.userValidationRules[{index}].expression"
        yield AuthExpression(field, user_rule.expression, "user", is_condition=True)


def build_policy(expressions: Sequence[AuthExpression]) -> Manifest:
    """Return the policy that an API server refuses if it cannot compile the expressions.

    Each expression is a pair of variables. A condition is a validation as well, because the API
    server demands that a validation is of the type bool.
    """
    variables: list[Manifest] = []
    validations: list[Manifest] = [{"expression": "true"}]
    for number, each in enumerate(expressions):
        values = f"[{_VARIABLES[each.variable]}].map({each.variable}"
        # A line break ends a comment at the end of the text.
        in_parentheses = f"{values}, (\n{each.text}\n))[0]"
        variables += [
            {"name": f"parentheses{number}", "expression": in_parentheses},
            {"name": f"brackets{number}", "expression": f"{values}, [\n{each.text}\n])"},
        ]
        condition = in_parentheses if each.is_condition else "true"
        validations.append({"expression": condition})
    rule = {
        "apiGroups": ["tenancy.x-k8s.io"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE"],
        "resources": ["none"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"generateName": _NAME_PREFIX},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": variables,
            "validations": validations,
        },
    }


def describe_refusal(
    expressions: Sequence[AuthExpression], causes: Sequence[Mapping[str, Any]], message: str
) -> str:
    """Return the message about the first expression that the API server does not compile."""
    for cause in causes:
        match = _CAUSE_FIELD.match(str(cause.get("field", "")))
        if match is None:
            continue
        number = int(match["number"])
        index = number // 2 if match["list"] == "variables" else number - 1
        if 0 <= index < len(expressions):
            each, text = expressions[index], str(cause.get("message", ""))
            reason = " ".join((text.partition("compilation failed: ")[2] or text).split())
            return f"{each.field}: the API server does not compile it: {reason[:500]}"
    return f"{expressions[0].field}: the API server does not compile it: {message[:500]}"
