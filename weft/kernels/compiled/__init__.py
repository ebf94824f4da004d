"""Operations on numbered cells, which window algorithms are written in, and their machine code.

cells         the operations, the ring of sequence numbers, and raw memory for compiled code
arithmetic    the operations on rows of all group keys, and on single numbers
"""
