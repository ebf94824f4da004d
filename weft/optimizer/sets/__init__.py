"""Set operators that share operands, in part by columns."""
