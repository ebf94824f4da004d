"""What kernels are compiled from: machine code, the operations of cells, and arithmetic."""
