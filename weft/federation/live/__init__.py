"""Providers that run: processes with engines of their own, joined by a broker. docs/federation.md says how, and why.

base         messages.py, nats_transport.py, site_directory.py, ledger.py
sources      source_agent.py, handover.py
providers    provider.py, provider_engine.py
users        result_inbox.py
coordinator  coordination.py, placing.py, coordinator_requests.py, federation_view.py
processes    site.py
"""
