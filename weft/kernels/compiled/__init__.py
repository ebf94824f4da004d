"""Operations on numbered cells, which window algorithms are written in, and their machine code.

cells                the operations, the ring of sequence numbers, and raw memory for compiled code
number_arithmetic    operations on single numbers, and on pairs of integers
row_arithmetic       operations on rows of all group keys
"""
