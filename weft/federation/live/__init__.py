"""Providers that run: processes with engines of their own, joined by a broker.

Everything rests on one **log**: entries in one order that all sites agree on, kept by the broker. The coordinator
appends what it decides, sources append that a batch of rows is there. What a site does follows from the entries up to a
place in the log, so that "query q runs at n2 from place 417 on" means the same to its old provider, its new one, its
source and its user's home, without any of them talking to another.

    base         messages.py, nats_transport.py, site_directory.py, ledger.py
    sources      stream_interest.py, source_agent.py, handover.py
    providers    provider.py, engine_incarnation.py, spark_engine.py
    users        result_inbox.py
    coordinator  coordination.py, placing.py, coordinator_requests.py, federation_view.py
    processes    site.py

What is durable where, and what happens when a process dies at any point, is in docs/federation.md.
"""
