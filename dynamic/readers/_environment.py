"""Which of how many processes this is, from the environment in which launchers start them."""

from __future__ import annotations

import os

from dynamic.errors import ArgumentError, shown

__all__ = ["environment_shard"]

#: The variables that hold the number of a process and how many there are.
_VARIABLES = {"torchrun": ("RANK", "WORLD_SIZE"), "slurm": ("SLURM_PROCID", "SLURM_NTASKS")}


def environment_shard(operator: str, launcher: str, shard_id: int | None, num_shards: int | None) -> tuple[int, int]:
    """The shard and the number of shards that a launcher's variables say.

    Raises:
        ArgumentError: The launcher is not known, its variables are not there or no such numbers, or the shard is given
            as well.
    """
    if not isinstance(launcher, str) or launcher not in _VARIABLES:
        raise ArgumentError(operator, "shard", "None, 'torchrun' or 'slurm'", shown(launcher))
    for argument, value in (("shard_id", shard_id), ("num_shards", num_shards)):
        if value is not None:
            raise ArgumentError(operator, argument, f"left out with shard={launcher!r}", shown(value))
    numbers = []
    for variable in _VARIABLES[launcher]:
        text = os.environ.get(variable)
        if text is None or not text.isascii() or not text.isdigit():
            got = f"{variable}={text!r}" if text is not None else f"no {variable} in the environment"
            hint = "Start the program by the launcher, or give shard_id= and num_shards=."
            raise ArgumentError(operator, "shard", f"the launcher that set {variable} to a number", got, hint)
        numbers.append(int(text))
    if numbers[0] >= numbers[1]:
        got = " and ".join(f"{name}={n}" for name, n in zip(_VARIABLES[launcher], numbers, strict=True))
        raise ArgumentError(operator, "shard", "that of a process whose number is below how many there are", got)
    return numbers[0], numbers[1]
