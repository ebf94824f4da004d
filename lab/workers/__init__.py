"""A provider with several workers: each a process with a Spark of its own, and queries that move between them.

groups.py        which queries stay together: those that share something, or read one another's answers
parts.py         a script, taken apart accordingly
assignment.py    who runs what: one file, replaced as a whole
balance.py       measured loads in, moves out, by the decisions of `lab.placement`
worker.py        the process: runs the looms that are assigned to it, and lets go of those that are not
provider.py      what a user holds in hand: sets up, starts, measures, moves, and stands in for workers that die

A fragment is a set of queries that stay together, and it is a loom: a directory with its catalog, Spark's checkpoint
and its state. A worker that lets go of a fragment stops it after a committed cycle; one that takes it opens the same
directory and goes on with the next cycle, over the files that no cycle has taken yet. So a migration is nothing but a
stop and a start, and as exact as these are: every cycle is committed once, wherever it ran.

    worker a                         assignment               worker b
    cycle 7 of f2 runs               f2 → b (was a)
    cycle 7 commits, loom closed, lock free
                                                              lock taken, cycle 8 of f2 begins

Two workers never run the same fragment: a loom has one writer, by a lock that ends with the process that holds it. A
worker that dies, whenever that is, leaves a lock that is free and at most one cycle without a commit, which whoever
comes next runs again.

The price: fragments share nothing, so a source is read once for each fragment that needs it, and the directories must
be where all workers can reach them.
"""
