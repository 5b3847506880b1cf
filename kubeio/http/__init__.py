"""HTTP/1.1 and TLS transport to one API server."""
