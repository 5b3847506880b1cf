"""Checks of an installation and its tenants, link by link."""
