"""Rules of `spec.auth` that need no API server, and the reserved names of users and groups.

Pure. The rules are those of the API server
(k8s.io/apiserver/pkg/apis/apiserver/validation/validation.go), except for CEL expressions, which
`expression_check` covers. Hazard: an API server does not start with a configuration that breaks one
of its rules. A rule that is missing here stops the tenant at the next restart.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from cryptography import x509

from tenancy import wellknown
from tenancy.access.specs import (
    AuthSpec,
    ClaimMappings,
    ClaimValidationRule,
    Issuer,
    JwtAuthenticator,
    PrefixedClaim,
    UserValidationRule,
)

RESERVED_PREFIXES = ("system:", "tenancy:", wellknown.KUBECONFIG_USER_PREFIX)
"""Prefixes of users and groups of Kubernetes, vc-manager, the syncer and scoped kubeconfigs."""
RESERVED_USERS = ("admin",)
"""User of the admin kubeconfig."""
_EXTRA_KEY = re.compile(
    r"(?P<domain>[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)"
    r"/[a-z0-9/._~%!$&'()*+,;=:-]+"
)
_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
_EMAIL = re.compile(r"claims\s*\.\s*\??\s*email\b(?!_)|claims\s*\[\s*\??\s*['\"]email['\"]")
_EMAIL_VERIFIED = re.compile(r"claims\s*\.\s*\??\s*email_verified\b")


def build_user_rules() -> tuple[UserValidationRule, ...]:
    """Return the rules that each issuer gets, so that no token stands for a reserved identity."""
    names = " || ".join(
        [
            *(f"user.username.startsWith('{prefix}')" for prefix in RESERVED_PREFIXES),
            *(f"user.username == '{name}'" for name in RESERVED_USERS),
        ]
    )
    groups = " || ".join(f"group.startsWith('{prefix}')" for prefix in RESERVED_PREFIXES)
    return (
        UserValidationRule(
            expression=f"!({names})",
            message="The name of the user is reserved for the platform.",
        ),
        UserValidationRule(
            expression=f"!has(user.groups) || !user.groups.exists(group, {groups})",
            message="A group of the user is reserved for the platform.",
        ),
    )


def list_problems(auth: AuthSpec, *, own_issuer: str) -> list[str]:
    """Return what is wrong, each with its field. `own_issuer` is that of ServiceAccount tokens."""
    found: list[str] = []
    for number, each in enumerate(auth.jwt):
        where = f"spec.auth.jwt[{number}]"
        found += _check_issuer(each.issuer, f"{where}.issuer", own_issuer)
        found += _check_claim_rules(each.claim_validation_rules, f"{where}.claimValidationRules")
        found += _check_mappings(each.claim_mappings, f"{where}.claimMappings")
        found += _check_user_rules(each.user_validation_rules, f"{where}.userValidationRules")
        found += _check_email(each, f"{where}.claimMappings.username.expression")
    issuers = [each.issuer for each in auth.jwt]
    found += _find_duplicates("issuer.url", [each.url for each in issuers])
    discoveries = [each.discovery_url for each in issuers if each.discovery_url]
    return [*found, *_find_duplicates("issuer.discoveryURL", discoveries)]


def _find_duplicates(field: str, values: list[str]) -> Iterator[str]:
    for value in sorted({each for each in values if values.count(each) > 1}):
        yield f"spec.auth.jwt: two entries have the {field} {value!r}. Keep one of them"


def _check_issuer(issuer: Issuer, where: str, own_issuer: str) -> Iterator[str]:
    yield from _check_url(issuer.url, f"{where}.url")
    if issuer.url == own_issuer:
        yield f"{where}.url: {issuer.url} issues the tenant's ServiceAccount tokens. Use another"
    if issuer.discovery_url:
        yield from _check_url(issuer.discovery_url, f"{where}.discoveryURL")
        if issuer.url.rstrip("/") == issuer.discovery_url.rstrip("/"):
            yield f"{where}.discoveryURL: it is the same as url. Remove it"
    if issuer.certificate_authority and not _is_pem(issuer.certificate_authority):
        yield f"{where}.certificateAuthority: it is no certificate in PEM. Paste the whole file"
    if not issuer.audiences or "" in issuer.audiences:
        yield f"{where}.audiences: an audience is missing or empty. Name at least one"
    if len(set(issuer.audiences)) != len(issuer.audiences):
        yield f"{where}.audiences: an audience is named twice. Keep one of them"
    if len(issuer.audiences) > 1 and issuer.audience_match_policy != "MatchAny":
        yield f"{where}.audienceMatchPolicy: several audiences need MatchAny. Set it"


def _check_url(url: str, where: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        parts, has_host = urlsplit(""), False
    is_plain = url.isascii() and url.isprintable() and not set(url) & set(' %\\^`{|}"<>?#')
    if parts.scheme != "https" or not has_host or "@" in parts.netloc or not is_plain:
        yield (
            f"{where}: {url!r} must begin with https:// and have a host, and neither user, query,"
            " fragment nor escapes. Correct it"
        )


def _is_pem(text: str) -> bool:
    try:
        return bool(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False


def _check_claim_rules(rules: Iterable[ClaimValidationRule], where: str) -> Iterator[str]:
    seen: set[str] = set()
    for number, rule in enumerate(rules):
        at = f"{where}[{number}]"
        if bool(rule.claim) == bool(rule.expression):
            yield f"{at}: set either claim or expression"
        if rule.claim and rule.message:
            yield f"{at}.message: it goes with expression only. Remove it"
        if rule.expression and rule.required_value:
            yield f"{at}.requiredValue: it goes with claim only. Remove it"
        key = f"claim {rule.claim}" if rule.claim else rule.expression
        if key in seen:
            yield f"{at}: an earlier rule has the same claim or expression. Remove one of them"
        seen.add(key)


def _check_mappings(mappings: ClaimMappings, where: str) -> Iterator[str]:
    if not mappings.username.claim and not mappings.username.expression:
        yield f"{where}.username: set either claim or expression"
    for field, mapping in (("username", mappings.username), ("groups", mappings.groups)):
        yield from _check_mapping(mapping, f"{where}.{field}")
    if mappings.uid.claim and mappings.uid.expression:
        yield f"{where}.uid: set either claim or expression"
    keys = [each.key for each in mappings.extra]
    for number, key in enumerate(keys):
        match = _EXTRA_KEY.fullmatch(key)
        domain = match["domain"] if match else ""
        if not domain or any(
            domain == each or domain.endswith(f".{each}") for each in _KUBERNETES_DOMAINS
        ):
            yield (
                f"{where}.extra[{number}].key: {key!r} must be in lower case, with a domain such as"
                " example.com/team that is not Kubernetes' own. Rename it"
            )
        if key in keys[:number]:
            yield f"{where}.extra[{number}].key: {key!r} is there twice. Remove one of them"


def _check_mapping(mapping: PrefixedClaim, where: str) -> Iterator[str]:
    prefix = mapping.prefix
    if mapping.claim and mapping.expression:
        yield f"{where}: set either claim or expression"
    elif mapping.expression and prefix is not None:
        yield f"{where}.prefix: it goes with claim only. Remove it"
    elif mapping.claim and prefix is None:
        yield f"{where}.prefix: it is required with claim. Set it, for example to oidc:"
    if prefix is not None and prefix.startswith(RESERVED_PREFIXES):
        reserved = " or ".join(RESERVED_PREFIXES)
        yield f"{where}.prefix: {prefix!r} is reserved, as all names with {reserved}. Use another"


def _check_user_rules(rules: Iterable[UserValidationRule], where: str) -> Iterator[str]:
    seen: set[str] = set()
    for number, rule in enumerate(rules):
        if not rule.expression:
            yield f"{where}[{number}].expression: it is empty. Write a CEL expression"
        if rule.expression in seen:
            yield f"{where}[{number}].expression: an earlier rule is the same. Remove one of them"
        seen.add(rule.expression)


def _check_email(authenticator: JwtAuthenticator, where: str) -> Iterator[str]:
    """Yield the rule that an address is a name only if the issuer has verified it.

    The API server reads the syntax tree. This reads the text, so it may refuse a text in quotes.
    """
    mappings = authenticator.claim_mappings
    texts = [
        mappings.username.expression,
        *(each.value_expression for each in mappings.extra),
        *(each.expression for each in authenticator.claim_validation_rules),
    ]
    if _EMAIL.search(mappings.username.expression) and not any(map(_EMAIL_VERIFIED.search, texts)):
        yield f"{where}: claims.email needs claims.email_verified in a rule. Add such a rule"
