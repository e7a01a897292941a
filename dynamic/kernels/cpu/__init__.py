"""Kernels over NumPy arrays that need more than a few lines. They know nothing of Tensors, Batches and layouts."""
