"""Plans of operators that are declared by functions of one sample. To be replaced family by family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dynamic._base import pool

from .call import Call, Plan


class Planned(NamedTuple):
    """A spec, and what the operator's function is given as `plan`."""

    spec: Any
    plan: Any


def planned(
    output: Callable[..., Any] | None = None,
    *,
    layout: Any = None,
    kind: Any = None,
    across: Any = None,
    of_values: int | None = None,
    many: Any = None,
    weight: float = 1.0,
    outputs: int = 0,
) -> Callable[[Call], Plan]:
    def plan(call: Call) -> Plan:
        found = across(call) if across is not None and call.count else None
        fixed = call.fixed if found is None else call.fixed | {"across": found}
        layouts = layout if isinstance(layout, tuple) else (layout,) * max(1, outputs)
        layouts_out = [g(call.layout, **fixed) if callable(g) else call.layout if g is None else str(g)
                       for g in layouts]  # fmt: skip
        data: Any = found
        parts = [Plan(layout=each) for each in layouts_out]
        if not call.count:
            if kind is not None:
                have = call.inputs[0] if call.inputs else None
                import numpy

                from dynamic.data import Tensor

                have = Tensor(numpy.float32(0)) if have is None else have
                kinds = kind(have.ndim, have._numpy_dtype, **call.fixed)
                for part, (ndim, dtype) in zip(parts, kinds if outputs else [kinds], strict=True):
                    part.ndim, part.dtype = ndim, dtype
        elif output is not None:
            body = output
            if across is not None:

                def body(*samples: Any, **arguments: Any) -> Any:
                    return output(*samples, **arguments, across=found)

            specs = call.each(body, of_values=of_values is not None and of_values < len(call.inputs))
            if isinstance(specs[0], Planned):
                data = [spec.plan for spec in specs]
                specs = [spec.spec for spec in specs]
            for part, column in zip(parts, zip(*specs, strict=True) if outputs else [specs], strict=True):
                part.shapes, part.dtype = [shape for shape, _ in column], column[0][1]

        def kernel(call: Call, memory: Any) -> Any:
            made = many(call, call.samples(), memory)
            return NotImplemented if made is None else made

        on_error = call.fixed.get("on_error", "raise")
        if outputs:
            return Plan(outputs=parts, data=data, kernel=many and kernel, weight=weight, on_error=on_error)
        part = parts[0]
        part.data, part.kernel, part.weight, part.on_error = data, many and kernel, weight, on_error
        return part

    return plan


def stepwise(step: Callable[..., Any]) -> Any:
    """A kernel for samples that each come to one call of a library: all are made ready before threads run them."""

    def many(call: Call, samples: Any, memory: Any) -> Any:
        steps = []
        for sample, arguments, out in zip(samples, call.rows(), memory.outs, strict=True):
            found = step(*sample, **arguments, plan=call.plan.data, out=out)
            if found is None:
                return None
            steps.append(found)
        pool.run_steps(steps, (call.bytes() + memory.nbytes) * call.plan.weight)
        return memory.storages

    return many


Spec = Any
Many = Any
