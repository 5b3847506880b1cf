"""Planted holes in the isolation of a tenant, and the audit that must find each of them."""
