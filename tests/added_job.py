"""What pipelines have beside operators, in DALI's words: run here, and under DALI with the imports exchanged."""

import json

import numpy as np

from dynamic.pipeline import Pipeline, fn, math, newaxis, pipeline_def, types


def arrays():
    return [np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(4, dtype=np.uint8).reshape(2, 2)]


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def constants():
    return (
        fn.constant(fdata=1.5), fn.constant(idata=[1, 2, 3, 4], shape=(2, 2), dtype=types.UINT8, layout="HW"),
        fn.constant(fdata=2, shape=(2, 3)), fn.constant(idata=[1, 300, -4], dtype=types.UINT8),
        fn.constant(fdata=[1.5, 2.5, -3.5], dtype=types.INT32), fn.constant(idata=7, shape=[]),
        fn.constant(idata=3, shape=4), types.Constant(5, shape=(2,)), types.Constant([1, 2], dtype=types.FLOAT16),
        types.Constant(np.arange(4.0).reshape(2, 2)), types.Constant(5) * fn.constant(idata=[1, 2], dtype=types.UINT8),
        types.Constant(5, device="cpu", name="five"), types.Constant([1, 2, 3, 4], shape=(2, 2), layout="HW"),
        types.Constant(5.75).uint8(), types.Constant(-2.5).int16(), types.Constant(0.4).bool(),
        types.Constant(7).float16(), types.Constant(np.array([1, 2**30])), math.sqrt(fn.constant(fdata=4.0)),
    )  # fmt: skip


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def functions():
    data = fn.external_source(arrays, layout="HW")
    first, second = fn.python_function(data, function=lambda x: (x * 2, x[0]), num_outputs=2, output_layouts=["HW"])
    return (
        first, second, data.shape(), data.shape(dtype=types.INT32)[1],
        fn.python_function(data, function=lambda x: x[None], output_layouts="CHW"),
        fn.python_function(data, fn.constant(idata=3), function=lambda x, y: x + y),
        fn.python_function(data, batch_processing=True, function=lambda samples: [sample + 1 for sample in samples]),
        fn.python_function(function=lambda: np.array([3.0])),
    )  # fmt: skip


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def sets():
    data = fn.external_source(arrays, layout="HW")
    ones, twos = fn.cast([data, data * 2], dtype=types.FLOAT)
    joined, other = fn.stack([data, fn.copy(data)], data)
    drawn, again = fn.random.uniform([data, data])
    firsts, seconds = fn.random_crop_generator([data.shape() + 30, data.shape() + 30])
    (alone,) = [fn.copy([data])]
    return (
        ones, twos, joined, other, alone, drawn - again, firsts[0] - firsts[1], seconds[0] - seconds[1],
        data[:, newaxis], data[:, :, newaxis("C")], data[newaxis("C"), 1:],
    )  # fmt: skip


@pipeline_def(
    batch_size=2,
    num_threads=1,
    device_id=None,
    output_dtype=[None] * 10 + [types.FLOAT] * 2,
    output_layout="",
    output_ndim=None,
)
def numbers():
    data, one = fn.external_source(arrays), Pipeline.current().max_batch_size
    return (
        data * np.array([2]), data - np.array([1.5]), data / np.array([2], np.uint64), data > np.array([2.5]),
        math.max(data, np.array([2])), math.fpow(data, np.array([2.0])), np.array([one, 3]), np.float64(2.5),
        np.int64(3), fn.stack(np.array([1]), np.array([2])), fn.copy(np.array([1.5])), types.ScalarConstant(2.5),
    )  # fmt: skip


@pipeline_def(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1)
def fed():
    x, y = fn.external_source(name="x", layout="X"), fn.external_source(name="y")
    return x * 2, y + 1


def told(outputs):
    layouts = [output.layout if not callable(output.layout) else output.layout() for output in outputs]
    samples = [[np.asarray(output.as_cpu().at(i)) for i in range(len(output))] for output in outputs]
    return [
        [layout or "", [[a.dtype.name, a.shape, a.tolist()] for a in each]]
        for layout, each in zip(layouts, samples, strict=True)
    ]


for made in (constants, functions, sets, numbers):
    pipe = made()
    print(json.dumps(told(pipe.run())))
pipe = fed()
pipe.build()
for count in (2, 3, 1):
    pipe.feed_input("x", [np.arange(i + count) for i in range(count)])
    pipe.feed_input("y", np.arange(count * 2, dtype=np.uint8).reshape(count, 2))
for _ in range(3):
    print(json.dumps(told(pipe.run())))
print(json.dumps(told(pipe.run(x=[np.array([5])], y=[np.array([6], np.uint8)]))))
print([types.to_numpy_type(kind).__name__ for kind in (types.FLOAT, types.UINT8, types.BOOL, types.FLOAT16)])
