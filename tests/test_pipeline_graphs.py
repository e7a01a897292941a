"""Graphs that are drawn once: in ``with pipe:`` blocks and by `define_graph`; classes of `ops`; `fn` as modules."""

import ctypes
import functools
import importlib
import inspect
import operator
import pickle
import types as python_types

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.auto_aug import trivial_augment
from dynamic.pipeline import DataNode, Pipeline, do_not_convert, fn, math, ops, pipeline_def, tensors, types
from dynamic.pipeline._names import members, paths

BOXES, LABELS = np.float32([[0.1, 0.1, 0.6, 0.7]]), np.int32([1])
MASK, IMAGE = np.int32([[0, 1, 1], [0, 0, 1]]), np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("graphs")
    for i in range(10):
        (root / f"class{i % 2}").mkdir(exist_ok=True)
        image = np.random.default_rng(i).integers(0, 256, (8 + i, 9, 3), np.uint8)
        cv2.imwrite(str(root / f"class{i % 2}" / f"{i}.png"), image)
    return root


def drawn(draw, batch_size=3, **how):
    """A pipeline whose graph a function draws in a block."""
    pipe = Pipeline(batch_size, 1, None, 7, prefetch_queue_depth=0, **how)
    with pipe:
        outputs = draw()
        pipe.set_outputs(*(outputs if isinstance(outputs, (tuple, list)) else (outputs,)))
    return pipe


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.dtype, a.layout, a.shape) == (b.dtype, b.layout, b.shape)
        assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a.samples, b.samples, strict=True))


def images(folder):
    jpegs, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="Reader")
    made = fn.resize(fn.decoders.image(jpegs), size=(6, 6))
    return fn.flip(made, horizontal=fn.random.coin_flip()), labels, math.sqrt(made[:2] / 2) + 1, made.shape()


# -- graphs ----------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(1, 9)
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.lt, operator.eq]
UNARY = [operator.neg, operator.pos, abs, math.sqrt, lambda x: x[0:1], lambda x: fn.cast(x, dtype="float32")]
EXPRESSIONS = st.recursive(
    NUMBERS | st.sampled_from(["x", "y"]),
    lambda inner: st.tuples(st.sampled_from(BINARY), inner, inner) | st.tuples(st.sampled_from(UNARY), inner),
    max_leaves=6,
)


def evaluated(expression, values):
    if not isinstance(expression, tuple):
        return values.get(expression, expression)
    function, *inner = expression
    inner = [evaluated(item, values) for item in inner]
    if all(isinstance(item, int | float | bool | complex) for item in inner):  # plain Python, whose types may not fit
        return values["x"]
    return function(*inner)


@given(EXPRESSIONS)
def test_a_graph_is_the_function_that_draws_it(expression):
    def made():
        x = fn.external_source(lambda i: [np.float32([i, 2, 3]), np.float32([4, 5, i])], batch=True)
        y = fn.external_source(lambda i: [np.float32([1 + i]), np.float32([2])], batch=True)
        return evaluated(expression, {"x": x, "y": y}), x

    with Pipeline(3, function=made, prefetch_queue_depth=0) as expected:
        pipe = drawn(made)
        for _ in range(2):
            same(pipe.run(), expected.run())


@pytest.mark.parametrize("runs", [0, 1, 4, 5])
def test_a_graph_goes_on_from_a_checkpoint_of_itself_and_of_its_function(folder, runs):
    one, other = drawn(lambda: images(folder)), Pipeline(3, seed=7, function=lambda: images(folder))
    with other:
        for _ in range(runs):
            same(one.run(), other.run())
        for text in (one.checkpoint(), other.checkpoint()):
            again = drawn(lambda: images(folder), checkpoint=text)
            assert again.is_restored_from_checkpoint
            same(again.run(), drawn(lambda: images(folder), checkpoint=one.checkpoint()).run())
    assert one.epoch_size("Reader") == 10
    assert one.num_outputs == 4


def test_calls_without_data_outside_of_a_block_belong_to_a_graph_too(folder):
    pipe = Pipeline(3, 1, None, 7)
    pipe.set_outputs(*images(folder))
    pipe.build()
    same(pipe.run(), drawn(lambda: images(folder)).run())
    pipe.close()
    with pytest.raises(RuntimeError, match=r"fn\.rotate\(\) is for functions.*Elsewhere call dynamic\.rotate"):
        fn.rotate(IMAGE, angle=3)


def test_nodes_may_be_given_to_a_function_that_has_conditions():
    @pipeline_def(batch_size=3, enable_conditionals=True, prefetch_queue_depth=0)
    def chosen(x, *, more):
        return x + 1 if x > 1 else more[0] - x

    with chosen(fn.external_source(name="x"), more=[fn.external_source(name="y") * 2]) as pipe:
        for _ in range(2):
            pipe.feed_input("x", [1, 2, 3])
            pipe.feed_input("y", [10, 20, 30])
            assert pipe.run()[0].tolist() == [19, 3, 4]


def test_what_is_drawn_once_is_called_once():
    calls = []

    class Counted(Pipeline):
        def define_graph(self):
            calls.append(Pipeline.current() is self)
            return fn.external_source(lambda i: [np.int32(i)])

    pipe = Counted(1, 1, None)
    assert [pipe.run()[0].tolist() for _ in range(3)] == [[0], [1], [2]]
    assert calls == [True]
    assert Pipeline.current() is None
    pipe.close()


def test_an_older_class_is_fed_before_each_run():
    class Fed(Pipeline):
        def __init__(self, batch_size, num_threads, device_id):
            super().__init__(batch_size, num_threads, device_id, seed=12, exec_async=False, exec_pipelined=False)
            self.input, self.rotate, self.count = ops.ExternalSource(), ops.Rotate(device="cpu", angle=90), 0

        def define_graph(self):
            self.images = self.input(name="images")
            return self.rotate(self.images)

        def iter_setup(self):
            self.count += 1
            if self.count in (2, 5):
                raise StopIteration if self.count == 5 else ValueError("a moment")
            self.feed_input(self.images, [np.full((2, 3, 1), self.count, np.uint8)], layout="HWC")

    pipe = Fed(2, 1, 0)
    pipe.build()
    assert (pipe.exec_async, pipe.exec_pipelined, pipe.device_id) == (False, False, 0)
    assert pipe.run()[0].shape() == [(3, 2, 1)]
    with pytest.raises(ValueError, match="a moment"):
        pipe.run()
    assert [pipe.run()[0][0][0, 0, 0].item() for _ in range(2)] == [3, 4]
    for _ in range(2):
        with pytest.raises(StopIteration):
            pipe.run()
    pipe.reset()
    assert pipe.run()[0][0][0, 0, 0].item() == 6


def test_a_run_that_fails_after_it_was_fed_is_fed_anew():
    class Failing(Pipeline):
        given = 0

        def define_graph(self):
            self.numbers = fn.external_source()
            return fn.python_function(self.numbers, function=self.checked)

        def checked(self, number):
            if number == 2:
                raise ValueError("no twos")
            return number

        def iter_setup(self):
            self.given += 1
            self.feed_input(self.numbers, [np.int32(self.given)])

    pipe = Failing(1, 1, None)
    assert pipe.run()[0].tolist() == [1]
    with pytest.raises(ValueError, match="no twos"):
        pipe.run()
    assert [pipe.run()[0].tolist() for _ in range(2)] == [[3], [4]]


def test_a_source_that_is_fed_may_have_several_outputs():
    def two():
        return fn.external_source(num_outputs=2, layout=["X", ""])

    pipe = Pipeline(2)
    with pipe:
        one, other = two()
        pipe.set_outputs(one + 0, other)
    assert [one.name, other.name] == ["external_source 1", "external_source 2"]
    pipe.feed_input(other, [[5], [6]])
    pipe.feed_input(one, [[1.5], [2.5]])
    assert [output.tolist() for output in pipe.run()] == [[[1.5], [2.5]], [[5], [6]]]

    with Pipeline(2, function=lambda: fn.external_source(name="x", num_outputs=2)) as pipe:
        outputs = pipe.run(**{"x[0]": [1, 2], "x[1]": [3.0, 4.0]})
    assert [output.tolist() for output in outputs] == [[1, 2], [3.0, 4.0]]


CASES = {  # calls of several results, or of as many as they are told
    "bbox_rotate": [((BOXES,), {"angle": 90.0, "input_shape": (4, 4)}),
                    ((BOXES, LABELS), {"angle": 90.0, "input_shape": (4, 4)})],
    "box_encoder": [((BOXES, LABELS), {"anchors": [0.0, 0.0, 1.0, 1.0]})],
    "cutmix": [((IMAGE, np.int32(1)), {"partners": (IMAGE, np.int32(0)), "num_classes": 2})],
    "mixup": [((IMAGE, np.int32(1)), {"partners": (IMAGE, np.int32(0)), "num_classes": 2})],
    "element_extract": [((IMAGE,), {"element_map": 1}), ((IMAGE,), {"element_map": [2]}),
                        ((IMAGE,), {"element_map": [0, 2]})],
    "external_source": [((lambda _: [[1], [2]],), {"num_outputs": 2}), ((lambda _: [[1]],), {"num_outputs": 1}),
                        ((lambda _: [1],), {})],
    "python_function": [((IMAGE,), {"function": lambda x: x}),
                        ((IMAGE,), {"function": lambda x: (x, x), "num_outputs": 2})],
    "dl_tensor_python_function": [((IMAGE,), {"function": lambda x: x}),
                                  ((IMAGE,), {"function": lambda x: (x, x), "num_outputs": 2})],
    "ssd_random_crop": [((IMAGE, BOXES, LABELS), {})],
    "random_bbox_crop": [((BOXES,), {}), ((BOXES, LABELS), {}), ((BOXES, LABELS), {"output_bbox_indices": True}),
                         ((BOXES,), {"output_bbox_indices": True})],
    "random_crop_generator": [((np.int64([9, 9]),), {})],
    "resize": [((IMAGE,), {"size": (2, 2)}), ((IMAGE,), {"size": (2, 2), "save_attrs": True})],
    "segmentation.random_object_bbox": [((MASK,), {}), ((MASK,), {"format": "box"}), ((MASK,), {"output_class": True}),
                                        ((MASK,), {"format": "box", "output_class": True})],
    "segmentation.select_masks": [((np.int32([1]), np.int32([[1, 0, 3]]), np.float32([[0, 0], [0, 1], [1, 1]])), {})],
    "tensor_resize": [((IMAGE,), {"sizes": (2, 2, 3)})],
    "roi_random_crop": [((), {"crop_shape": (2, 2), "roi_start": (0, 0), "roi_shape": (3, 3)})],
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(CASES))
def test_a_graph_knows_how_many_results_a_call_has(path):
    function = functools.reduce(getattr, path.split("."), fn)
    for inputs, arguments in CASES[path]:
        counts = []

        def made(inputs=inputs, arguments=arguments, counts=counts):
            found = function(*inputs, **arguments)
            counts.append(len(found) if isinstance(found, tuple) else None)
            return found

        with Pipeline(1, seed=5, function=made, prefetch_queue_depth=0) as pipe:
            pipe.run()
        same(drawn(made, 1).run(), Pipeline(1, seed=7, function=made, prefetch_queue_depth=0).run())
        assert len(set(counts)) == 1, (arguments, counts)


def test_a_graph_knows_the_names_of_what_moves_together():
    def made():
        x = fn.external_source(lambda _: [IMAGE], layout="HWC")
        boxes, points = np.float32([[0, 0, 2, 2]]), np.float32([[1, 1]])
        boxes, points = fn.reshape(boxes, shape=(1, 4)), fn.reshape(points, shape=(1, 2))
        found = fn.together(fn.random_resized_crop, image=x, boxes=boxes, points=points, size=9)
        again = fn.sometimes(0.5, fn.together, fn.flip, image=found["image"], boxes=found["boxes"])
        return [*found.values(), *again.values()]

    assert len(drawn(made, 1).run()) == 8
    same(drawn(made, 1).run(), Pipeline(1, seed=7, function=made, prefetch_queue_depth=0).run())


def test_every_operator_of_several_results_is_among_these():
    several = set()
    for path in paths():
        meant = inspect.unwrap(functools.reduce(getattr, path.split("."), fn))
        if "tuple[" in str(getattr(meant, "__annotations__", {}).get("return", "")):
            several.add(path)
    assert several <= {*CASES}, several - {*CASES}


def test_lists_of_nodes_are_sets_of_inputs():
    def made():
        x = fn.external_source(lambda _: [IMAGE], layout="HWC")
        one, other = fn.flip([x, x + 1], horizontal=1)
        (a, b), (c, d) = fn.resize([x, other], size=(2, 2), save_attrs=True)
        return one, other, a, b, c, d

    same(drawn(made, 1).run(), Pipeline(1, function=made, prefetch_queue_depth=0).run())


def test_features_of_records_are_nodes_under_their_names(tmp_path):
    with pytest.raises(ArgumentError, match="features.*a dict of features"):
        drawn(lambda: fn.readers.tfrecord(path=str(tmp_path), features=[]))
    pipe, features = Pipeline(1), {"image": None, "label": None}
    with pipe:
        found = fn.readers.tfrecord(path="a", index_path="b", features=features, name="R")
    assert {name: type(node) for name, node in found.items()} == dict.fromkeys(features, DataNode)


def test_what_no_output_needs_is_not_made_unless_it_is_told():
    made = []

    def noted(x):
        made.append(x.item())
        return x

    for told, count in (({}, 0), ({"preserve": True}, 1)):
        made.clear()
        pipe = drawn(lambda told=told: [fn.python_function(1, function=noted, **told), fn.constant(idata=[2])][1], 1)
        assert pipe.run()[0].tolist() == [[2]]
        assert len(made) == count
    pipe = Pipeline(1)
    with pipe:
        pipe.add_sink(fn.python_function(1, function=noted))
        pipe.set_outputs(5)
    made.clear()
    pipe.run()
    pipe.close()
    assert made


def test_policies_are_calls_of_a_graph(folder):
    def made():
        jpegs, _ = fn.readers.file(file_root=str(folder))
        return trivial_augment.trivial_augment_wide(fn.decoders.image(jpegs))

    same(drawn(made).run(), Pipeline(3, seed=7, function=made, prefetch_queue_depth=0).run())


def test_a_node_is_no_data():
    pipe = Pipeline(1)
    with pipe:
        node = fn.external_source(name="numbers")
        assert isinstance(node, DataNode)
        assert (node.name, node.device) == ("numbers", "cpu")
        assert repr(node) == "<DataNode numbers>"
        assert len({node, node + 1, node}) == 2
        assert fn.copy(node, device="gpu").device == "gpu" == (fn.copy(node, device="gpu") + 1).device
        assert isinstance(np.ones(3) + node, DataNode)
        with pytest.raises(TypeError, match="enable_conditionals=True"):
            bool(node > 1)
        with pytest.raises(TypeError, match="one value of a graph"):
            iter(node)


def test_a_graph_that_is_none_says_how_to_make_one():
    with pytest.raises(NotImplementedError, match=r"set_outputs.*define_graph.*pipeline_def"):
        Pipeline(1).build()
    with pytest.raises(RuntimeError, match="Return the outputs from the function"):
        Pipeline(1, function=lambda: 1).set_outputs(1)
    with Pipeline(2, function=lambda: 1) as pipe:
        with pytest.raises(ArgumentError, match="exec_asink"):
            Pipeline(2, exec_asink=True)
        assert pipe.empty()
        assert pipe.num_outputs == 1
    assert do_not_convert(len) is len


def test_settings_that_make_no_difference_are_told():
    how = {"set_affinity": True, "output_dtype": [types.FLOAT, None], "function": lambda: (1.0, 2)}
    pipe = Pipeline(2, -1, 0, -1, False, 3, False, **how)
    with pipe:
        assert (pipe.exec_pipelined, pipe.exec_async, pipe.set_affinity, pipe.max_streams) == (False, False, True, None)
        assert pipe.output_dtype() == [ndd.float32, None]
        assert pipe.output_ndim() == pipe.output_layout() == [None, None]
        assert pipe.num_threads >= 1
        assert not pipe.is_restored_from_checkpoint


# -- fn and ops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", paths())
def test_every_name_is_a_function_of_a_module(path):
    family, _, name = path.rpartition(".")
    module = importlib.import_module(f"dynamic.pipeline.fn.{family}" if family else "dynamic.pipeline.fn")
    function = getattr(module, name)
    assert isinstance(function, python_types.FunctionType)
    assert function.__name__ == name
    assert pickle.loads(pickle.dumps(function)) is function is getattr(module, name)


def test_what_is_not_there_is_not_there():
    assert not hasattr(fn.readers, "nothing")
    with pytest.raises(AttributeError, match="fn has no 'optical_flow': NVIDIA's hardware computes it"):
        _ = fn.optical_flow
    assert not hasattr(ops, "os")
    for family in ("", "readers", "random", "io.file"):
        module = functools.reduce(getattr, family.split(".") if family else (), fn)
        assert dir(module) == members(family)
    for module, name in (
        (fn.readers, "fiel"),
        (fn.io, "fil"),
        (ops, "Rotat"),
        (ops.readers, "Nothing"),
        (ops, "rotate"),
    ):
        with pytest.raises(AttributeError, match=r"(fn|ops) has no"):
            getattr(module, name)
    with pytest.raises(TypeError, match="not an operator: call one of its family"):
        fn.random()


def test_operators_are_classes_in_each_spelling():
    for name in ("COCOReader", "CocoReader"):
        assert getattr(ops, name)._function is fn.coco_reader
    assert {"Rotate", "CropMirrorNormalize", "FileReader"} <= {*dir(ops)}
    assert "File" in dir(ops.readers)
    rotate = ops.Rotate(angle=90)
    assert repr(rotate) == "ops.Rotate(angle=90)"
    assert isinstance(rotate, ops.Operator)
    pipe = drawn(lambda: rotate(ops.ExternalSource(lambda _: [IMAGE])(), keep_size=True), 1)
    same(pipe.run(), (ndd.rotate(ndd.as_batch([IMAGE]), angle=90, keep_size=True),))
    with Pipeline(1, function=lambda: ops.Rotate(angle=90)(ops.Constant(idata=[1], shape=[2, 2, 1])())) as pipe:
        assert pipe.run()[0].shape == [(2, 2, 1)]


def test_former_names_have_the_results_of_those_of_now(folder):
    class Older(Pipeline):
        def __init__(self):
            super().__init__(2, 1, 0, seed=12)
            self.input = ops.FileReader(file_root=str(folder), random_shuffle=True)
            self.decode = ops.ImageDecoderRandomCrop(device="cpu", output_type=types.RGB)
            self.normalize = ops.CropMirrorNormalize(device="cpu", output_dtype=types.FLOAT, output_layout=types.NCHW)
            self.coin = ops.CoinFlip(probability=0.5)

        def define_graph(self):
            jpegs, labels = self.input(name="Reader")
            return [self.normalize(self.decode(jpegs), mirror=self.coin()), labels]

    with Older() as pipe:
        images, labels = pipe.run()
        assert [str(images.dtype), images.layout, labels.shape] == ["f32", "CHW", [(1,)] * 2]
        assert pipe.epoch_size("Reader") > 0


# -- outputs ---------------------------------------------------------------------------------------------------------


def test_outputs_have_the_methods_of_dalis_tensors(folder):
    def made():
        jpegs, labels = fn.readers.file(file_root=str(folder))
        return fn.resize(fn.decoders.image(jpegs), size=(4, 5)), labels

    with pipeline_def(batch_size=3, num_threads=1)(made)() as pipe:
        batch, labels = pipe.run()
    one, whole = batch[1], batch.as_tensor()
    assert one.shape() == [4, 5, 3]
    assert one.shape == (4, 5, 3)
    assert whole.shape() == [3, 4, 5, 3]
    assert one.layout() == "HWC" == one.layout
    assert whole.layout() == "NHWC"
    assert batch.layout() == "HWC"
    assert labels.layout == labels.layout() == ""
    assert labels.layout == labels[0].layout == None  # noqa: E711 - for it equals both
    assert labels.layout != "X"
    assert labels[0].shape() == [1] == list(labels.shape()[0])
    assert one.as_cpu().tolist() == one.tolist()
    assert [x.shape() for x in batch] == [[4, 5, 3]] * 3
    assert one.source_info() == one.get_property("source_info") == str(batch.origin.names[1])
    assert one.get_property("layout") == "HWC"
    assert whole.source_info() == ""
    with pytest.raises(ArgumentError, match="'source_info' or 'layout'"):
        one.get_property("colour")
    assert batch.data_ptr() == batch.data_at(0) == batch[0].data_ptr()
    assert batch.data_at(1) == one.data_ptr()
    for data, kind in ((one, np.asarray(one)), (batch, batch.as_array()), (whole[:, ::2], np.asarray(whole)[:, ::2])):
        memory = np.zeros(kind.shape, np.uint8)
        for address in (memory.ctypes.data, ctypes.c_void_p(memory.ctypes.data)):
            memory[...] = 0
            (tensors.OutputTensor.of(data) if isinstance(data, ndd.Tensor) else data).copy_to_external(address)
            assert memory.tolist() == kind.tolist()


def test_kinds_of_data_have_dalis_names():
    one = tensors.TensorCPU(np.zeros((2, 3), np.float32), "HW")
    several = tensors.TensorListCPU([one, one])
    assert isinstance(one, tensors.TensorCPU)
    assert isinstance(ndd.as_tensor([1]), tensors.TensorCPU)
    assert isinstance(several, tensors.TensorListCPU)
    assert several.layout() == "HW"
    assert several.shape() == [(2, 3)] * 2
    assert not isinstance(one, tensors.TensorListCPU | tensors.TensorGPU)
    assert not isinstance(several, tensors.TensorListGPU | tensors.TensorCPU)


@pytest.mark.parametrize("source", [np.arange(12).reshape(2, 2, 3), [[[1, 2], [3, 4]]]])
def test_sources_of_data_are_drawn_outside_of_blocks_too(source):
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    pipe.set_outputs(fn.external_source(source) + 1)
    assert pipe.run()[0].tolist() == (np.asarray(source[0]) + 1).tolist()


def test_a_graph_may_be_drawn_between_push_and_pop():
    outer, inner = (Pipeline(batch_size=2, num_threads=1, device_id=None) for _ in range(2))
    Pipeline.push_current(outer)
    try:
        first = fn.random.uniform(range=(1, 2), seed=3)
        Pipeline.push_current(inner)
        inner.set_outputs(fn.constant(idata=5))
        Pipeline.pop_current()
        outer.set_outputs(first, fn.constant(idata=7))
    finally:
        Pipeline.pop_current()
    assert Pipeline.current() is None
    assert inner.run()[0].tolist() == [[5], [5]]
    assert outer.run()[1].tolist() == [[7], [7]]
    with pytest.raises(RuntimeError, match="no pipeline is current by push_current"):
        Pipeline.pop_current()
    with pytest.raises(RuntimeError, match="is for graphs; this pipeline has a function"):
        Pipeline.push_current(Pipeline(batch_size=1, function=lambda: fn.constant(idata=5)))
