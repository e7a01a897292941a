"""How a function on samples becomes an operator on Tensors and Batches.

A call takes five steps: bind the arguments, plan the results, allocate them, run the kernel, wrap the results.
"""
