"""The operators, one module for each family: plain functions on one sample, lifted by `operator`."""

import re


def __getattr__(name: str) -> object:
    """Tell who looks for DALI's classes of operators that there are functions instead."""
    function = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    instead = f"; operators are functions: dynamic.{function}" if name[0].isupper() else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{instead}")
