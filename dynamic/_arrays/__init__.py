"""Arrays of NumPy and CuPy: their libraries, memory, exchange with other libraries, and descriptions for kernels."""
