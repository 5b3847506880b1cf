"""Typed views of the fields of a VirtualCluster about the access to its API.

The fields of `spec.auth` are those of AuthenticationConfiguration
(apiserver.config.k8s.io/v1), with the same names. Must not know how the API server gets them.
"""

from typing import Literal

import msgspec

KubeconfigFormat = Literal["ClusterAPI", "ArgoCD"]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The issuer of tokens, and the audiences that a token must have."""

    url: str
    discovery_url: str = msgspec.field(default="", name="discoveryURL")
    certificate_authority: str = ""
    """PEM. Empty: the authorities that the image of the API server trusts."""
    audiences: tuple[str, ...]
    audience_match_policy: Literal["", "MatchAny"] = ""


class ClaimValidationRule(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """A condition on the claims of a token: a claim with a value, or a CEL expression."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class PrefixedClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim with a prefix, or a CEL expression."""

    claim: str = ""
    prefix: str | None = None
    """Required with a claim, may be empty."""
    expression: str = ""


class ClaimOrExpression(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim or a CEL expression."""

    claim: str = ""
    expression: str = ""


class ExtraMapping(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An extra attribute of the user."""

    key: str
    value_expression: str


class ClaimMappings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Attributes of the user, by the claims of a token."""

    username: PrefixedClaim
    groups: PrefixedClaim = PrefixedClaim()
    uid: ClaimOrExpression = ClaimOrExpression()
    extra: tuple[ExtraMapping, ...] = ()


class UserValidationRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition on the user, as CEL expression."""

    expression: str
    message: str = ""


class JwtAuthenticator(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Users of one issuer of JSON Web Tokens, such as an OIDC provider."""

    issuer: Issuer
    claim_validation_rules: tuple[ClaimValidationRule, ...] = ()
    claim_mappings: ClaimMappings
    user_validation_rules: tuple[UserValidationRule, ...] = ()


class AuthSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Further logins of a tenant, beside certificates and ServiceAccounts."""

    jwt: tuple[JwtAuthenticator, ...] = ()


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a tenant's API that its users dial."""

    hostname: str = ""
    """DNS name in the certificate and in the kubeconfig. Empty: an address that is found."""
    port: int = 0
    """Port of the kubeconfig with `hostname`. 0: the port of the API server's Service."""
