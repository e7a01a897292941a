"""Checkpoints: the states of readers and RNGs as one page of JSON, written whole and read with suspicion."""

from . import legacy as legacy
from ._checkpoint import Checkpoint, current
from ._save import load, load_latest, save
from ._values import array_from_json, array_to_json
from ._verify import CountedEpoch, VerifiedEpoch, verify_epoch

__all__ = [
    "Checkpoint",
    "CountedEpoch",
    "VerifiedEpoch",
    "array_from_json",
    "array_to_json",
    "current",
    "legacy",
    "load",
    "load_latest",
    "save",
    "verify_epoch",
]
