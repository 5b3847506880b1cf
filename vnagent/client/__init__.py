"""HTTPS client of the agent."""
