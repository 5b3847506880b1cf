"""Measurements of the syncer against clusters in memory."""
