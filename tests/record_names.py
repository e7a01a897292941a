"""Record the public names of DALI 2.4, and the arguments of its operators and readers, into data/names_dali_2_4.json.

Run it with ``DYNAMIC_DALI_PYTHON`` naming a Python that has DALI: ``python tests/record_names.py``.
`docs/make_parity.py` compares the record with this library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dali_oracle import connect

FILE = Path(__file__).with_name("data") / "names_dali_2_4.json"

#: Run by the Python that has DALI. Left out: names that DALI hides or imports, and arguments that every operator has.
SCRIPT = '''
import ast, inspect, json, pathlib
import nvidia.dali as dali
import nvidia.dali.fn as fn
import nvidia.dali.types as dali_types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.experimental.dynamic import _ops

ROOT = ndd.__name__ + "."
COMMON = ("batch_size", "device")

def public(owner):
    return sorted(name for name in dir(owner) if name[0] != "_" and name != "hidden")

def arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name[0] != "_" and p.name not in COMMON]

def functions(module, path=""):
    for name in public(module):
        value = getattr(module, name)
        if inspect.ismodule(value) and value.__name__.startswith(module.__name__ + "."):
            yield from functions(value, f"{path}{name}.")
        elif inspect.isfunction(value):
            yield path + name

def plugin(name, *files):
    """Public classes and functions of modules that need PyTorch or JAX, read from their text."""
    root = pathlib.Path(dali.__file__).parent / "plugin" / name
    bodies = [ast.parse((root / file).read_text()).body for file in files]
    found = [node.name for body in bodies for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return sorted(name for name in found if name[0] != "_")

def readers(module, path):
    found = ((path + name, getattr(module, name)) for name in public(module))
    return {name: arguments(value.__init__) for name, value in found if isinstance(value, type)}

operators = {(f.__module__ + "." + f.__name__).removeprefix(ROOT): arguments(f) for f in _ops._all_functions}
operators = {name: given for name, given in sorted(operators.items()) if "hidden" not in name}
others = [name for name in public(ndd) if name not in operators]
others = [name for name in others if getattr(getattr(ndd, name), "__module__", ROOT).startswith(ROOT[:-1])]
result = json.dumps({
    "dali": dali.__version__,
    "operators": operators,
    "readers": {**readers(ndd.readers, "readers."), **readers(ndd.experimental.readers, "experimental.readers.")},
    "others": others,
    "fn": list(functions(fn)),
    "Pipeline": public(Pipeline),
    "types": [name for name in public(dali_types) if not inspect.ismodule(getattr(dali_types, name))
              and (name[:1].isupper() or name.startswith("to_")) and name != "Enum"],
    "pytorch": plugin("pytorch", "__init__.py", "_torch_function.py", "torch_utils.py", "fn/__init__.py",
                      "loader_evaluator/loader.py", "experimental/proxy/__init__.py"),
    "jax": plugin("jax", "iterator.py", "clu.py", "fn/_jax_function_impl.py"),
})
'''


def record(dali: Any) -> dict[str, Any]:
    """Ask DALI for its names."""
    names: dict[str, Any] = json.loads(dali.script(SCRIPT))
    return names


def recorded() -> dict[str, Any]:
    """The names as they were recorded."""
    names: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return names


def text(names: dict[str, Any]) -> str:
    """The record as text: a line for each operator, reader and list."""
    parts = []
    for key, value in names.items():
        if isinstance(value, dict):
            lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(given)}" for name, given in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{lines}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    oracle = connect()
    if oracle is None:
        sys.exit("DYNAMIC_DALI_PYTHON names no Python that has DALI")
    FILE.write_text(text(record(oracle)), encoding="utf-8")
