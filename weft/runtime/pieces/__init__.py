"""The relations of queries one by one: who evaluates each of them, and in which order.

roots.py        what queries are evaluated as
pieces.py       the relations of all queries, each once, with whoever evaluates it
evaluation.py   all of them in a cycle, as soon as what they read is there
"""
