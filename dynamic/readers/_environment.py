"""Which of how many processes this is, as launchers say by the environment, or torch.distributed."""

from __future__ import annotations

import os

from dynamic.errors import ArgumentError, shown

__all__ = ["environment_shard"]

#: The variables that hold the number of a process and how many there are.
_VARIABLES = {"torchrun": ("RANK", "WORLD_SIZE"), "slurm": ("SLURM_PROCID", "SLURM_NTASKS")}
_TORCH = "torch"
_WORDS = "None, 'torch', 'torchrun' or 'slurm'"


def environment_shard(operator: str, launcher: str, shard_id: int | None, num_shards: int | None) -> tuple[int, int]:
    """The shard and the number of shards that a launcher's variables, or torch.distributed, say.

    Raises:
        ArgumentError: The launcher is not known, its variables are not there or no such numbers, torch.distributed is
            not initialised, or the shard is given as well.
    """
    if not isinstance(launcher, str) or launcher not in (_TORCH, *_VARIABLES):
        raise ArgumentError(operator, "shard", _WORDS, shown(launcher))
    for argument, value in (("shard_id", shard_id), ("num_shards", num_shards)):
        if value is not None:
            raise ArgumentError(operator, argument, f"left out with shard={launcher!r}", shown(value))
    return _of_torch(operator) if launcher == _TORCH else _of_variables(operator, launcher)


def _of_torch(operator: str) -> tuple[int, int]:
    """The rank and the number of ranks; torch is imported here, and nowhere else in the readers."""
    try:
        from torch import distributed
    except ImportError as error:
        raise ArgumentError(operator, "shard", _WORDS, "'torch', which is not installed") from error
    if not (distributed.is_available() and distributed.is_initialized()):
        hint = (
            "Call torch.distributed.init_process_group() first; in Lightning make the reader in train_dataloader() "
            "or setup(). In processes that torch does not know, such as spawned workers of a DataLoader, give "
            "shard_id= and num_shards=."
        )
        expected = "'torch' only where torch.distributed is initialised"
        raise ArgumentError(operator, "shard", expected, "'torch' without a process group", hint)
    return distributed.get_rank(), distributed.get_world_size()


def _of_variables(operator: str, launcher: str) -> tuple[int, int]:
    numbers = []
    for variable in _VARIABLES[launcher]:
        text = os.environ.get(variable)
        if text is None or not text.isascii() or not text.isdigit():
            got = f"{variable}={text!r}" if text is not None else f"no {variable} in the environment"
            hint = "Start the program by the launcher, or give shard_id= and num_shards=."
            if launcher == "torchrun":
                hint += " Where another launcher has initialised torch.distributed, shard='torch' asks that."
            raise ArgumentError(operator, "shard", f"the launcher that set {variable} to a number", got, hint)
        numbers.append(int(text))
    if numbers[0] >= numbers[1]:
        got = " and ".join(f"{name}={n}" for name, n in zip(_VARIABLES[launcher], numbers, strict=True))
        raise ArgumentError(operator, "shard", "a launcher that gives a rank below the number of processes", got)
    return numbers[0], numbers[1]
