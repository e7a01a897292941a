"""How a function on samples becomes an operator on Tensors and Batches.

A call takes five steps: bind the arguments, plan the results, allocate them, run the kernel, wrap the results.
"""

from .argument import DTypeArgument, Layout, PerItem, PerSample
from .call import Call, Plan
from .operator import Operator, operator, registry

__all__ = ["Call", "DTypeArgument", "Layout", "Operator", "PerItem", "PerSample", "Plan", "operator", "registry"]
