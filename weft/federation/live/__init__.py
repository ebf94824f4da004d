"""Providers that run: processes with engines of their own, joined by a broker. docs/federation.md says how, and why."""
