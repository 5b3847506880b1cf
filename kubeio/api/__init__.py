"""Typed calls on one API server: client, Events, leader election."""
