"""Reconciles of objects that other projects read. The chart's values switch each one on."""
