"""Translation and decision rules per kind. Pure."""
