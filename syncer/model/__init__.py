"""Vocabulary of the syncer: keys, field rules, metadata, differences, views; pure."""
