"""Kinds that SyncRules declare, built from the same parts as the kinds of the registry."""
