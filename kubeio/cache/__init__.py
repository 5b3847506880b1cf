"""Informer caches: reflectors and their stores."""
