"""TLS streams and the relay between them."""
