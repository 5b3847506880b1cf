"""Server of the agent: listener, requests, audit."""
