"""Kinds of SyncRules: their definitions and rights."""
