"""Providers that run: processes with engines of their own, joined by a broker.

Everything rests on one **log**: entries in one order that all sites agree on, kept by the broker. The coordinator
appends what it decides, sources append that a batch of rows is there. What a site does follows from the entries up to a
place in the log, so that "query q runs at n2 from place 417 on" means the same to its old provider, its new one, its
source and its user's home, without any of them talking to another.

    entries.py        what the log can say
    ledger.py         what follows from it: streams, queries, who runs what from where to where, clocks
    wire.py           what a broker must do: append to the log, keep letters
    memory_wire.py    … inside one process, for tests
    nats_wire.py      … NATS with JetStream
    letters.py        what sites send each other: plain data, perhaps with rows

    interest.py       which rows and columns of a stream a provider's queries need, as data; and which rows those are
    source_agent.py   a stream's owner: numbers its batches, sends each row once to whoever wants it, replays
    batch_files.py    where a source takes its batches from, and keeps them until nobody can need them
    handover.py       from which batch on a query must be fed again to go on elsewhere

    feeding.py        asking owners for batches again
    store.py          what a role must not forget, in SQLite
    following.py      following the log, and appending to it

    engine_handle.py  what a provider needs of an engine; `spark_engine.py` is weft's own
    generation.py     an engine with its landed rows and its outbox
    landing.py        rows on the provider's disk, one folder for each cycle
    outbox.py         answers on their way to the homes of users
    provider.py       follows the log, cycle by cycle
    home.py           the users' side: answers from wherever queries run, into the delivery log, in order and once

    flow_model.py     queries, streams and measured rates as the coordinator's substreams and interests
    placing.py        the coordinator of the simulator, kept true to the log
    coordination.py   the coordinator as a process: requests in, decisions into the log
    picture.py        the network with its loads, queries and trees, as SVG
    requests.py       asking the coordinator, for the command line
    status.py         a federation as plain data
    site.py           what a process of a site runs
    place_file.py     how a directory says which site it is

What is durable where, and what happens when a process dies at any point, is in docs/federation.md.
"""
