"""Operations on numbered cells, which window algorithms are written in, and their machine code.

pointers             raw memory for compiled code; how Numba is told what a function means
cells                the operations, and the ring of sequence numbers
row_arithmetic       operations on rows of all group keys
number_arithmetic    operations on single numbers, and on pairs of integers
overloads            which of these Numba takes, by the type of the arithmetic
"""
