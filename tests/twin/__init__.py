"""CUDA without a GPU: kernels compiled for the host, and as much of cupy as the library uses over host memory."""
