"""Reconcilers of pods, their tokens and their assigned clusters."""
