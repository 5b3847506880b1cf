"""Differences of a session with the home cluster and a session with a target."""
