"""Translation and decisions per kind; pure."""
