"""Labels of `readers.File`: integers, floats and names of classes, one or several, from arguments and text files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dynamic.errors import ArgumentError, StateMismatch
from dynamic.readers import File

integers = st.integers(-(2**31), 2**31 - 1)
floats = st.floats(width=32)
names = st.text("abcä_-1.", min_size=1, max_size=4)
KINDS = {"int": integers, "float": floats, "class": names}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for i in range(6):
        (folder / f"{i} {i}.bin").write_bytes(b"%d" % i)
    return folder


def paths(count):
    return [f"{i} {i}.bin" for i in range(count)]


@st.composite
def rows(draw, kind):
    """Labels of some files, each a list."""
    width = draw(st.integers(1, 3))
    return draw(st.lists(st.lists(KINDS[kind], min_size=width, max_size=width), min_size=1, max_size=6))


def labels(reader):
    return reader(len(reader))[1]


@given(data=st.data(), kind=st.sampled_from(list(KINDS)))
def test_labels_of_a_list_and_of_a_text_file_are_the_same_numbers(root, tmp_path_factory, data, kind):
    table = data.draw(rows(kind))
    known = sorted({value for row in table for value in row}) if kind == "class" else None
    expected = [[known.index(value) for value in row] for row in table] if known else table
    expected = np.array(expected, np.float32 if kind == "float" else np.int32)
    width, count = expected.shape[1], len(table)
    lines = "\n".join(f"{path}\t{' '.join(map(str, row))}" for path, row in zip(paths(count), table, strict=True))
    text = tmp_path_factory.mktemp("lists") / "list.txt"
    text.write_text(lines, encoding="utf-8")
    readers = [File(file_root=root, files=paths(count), labels=table),
               File(file_root=root, file_list=text, label_type=kind, num_labels=width)]  # fmt: skip
    if kind != "class":
        readers.append(File(file_root=root, files=paths(count), labels=np.array(table, expected.dtype)))
    if width == 1:
        readers.append(File(file_root=root, files=paths(count), labels=[value for (value,) in table]))
    for reader in readers:
        np.testing.assert_array_equal(labels(reader).numpy(), expected, strict=True)
        assert reader.classes == (tuple(known) if known else None)


@given(values=st.lists(integers | floats, min_size=2, max_size=6))
def test_integers_among_floats_are_floats(root, values):
    assume({type(value) for value in values} == {int, float})
    found = labels(File(file_root=root, files=paths(len(values)), labels=values)).numpy()
    np.testing.assert_array_equal(found[:, 0], np.array(values, np.float32), strict=True)


def test_a_type_may_be_asked_for(root):
    def made(**arguments):
        return labels(File(file_root=root, files=paths(2), **arguments)).numpy().tolist()

    assert made(labels=[1, 2]) == [[1], [2]]
    assert made(labels=[1, 2], label_type="float") == [[1.0], [2.0]]
    assert made(labels=["b", "a"], classes=["b", "c", "a"]) == [[0], [2]]
    assert made(labels=[["b", "a"], ["a", "a"]]) == [[1, 0], [0, 0]]
    assert made(labels=np.array(["b", "a"])) == [[1], [0]]
    assert made(labels=[0.5, 1.5], scalar_labels=True) == [0.5, 1.5]
    assert made(labels=["b", "a"], scalar_labels=True) == [1, 0]
    assert made(labels=[(1, 2), np.array([3, 4])]) == [[1, 2], [3, 4]]


def test_classes_of_two_lists_agree_if_they_are_given(root):
    train = File(file_root=root, files=paths(3), labels=["cat", "dog", "owl"], classes=["owl", "cat", "dog"])
    test = File(file_root=root, files=paths(2), labels=["dog", "owl"], classes=["owl", "cat", "dog"])
    assert [train.classes[i] for (i,) in labels(test).tolist()] == ["dog", "owl"]


@pytest.mark.parametrize(("arguments", "told"), [
    ({"labels": [1, "a"]}, r"'labels\[1\]' must be an integer of 32 bits; got str 'a'"),
    ({"labels": ["a", 1]}, r"'labels\[0\]' must be an integer"),
    ({"labels": [1, True]}, r"'labels\[1\]' must be an integer"),
    ({"labels": [1, None]}, r"'labels\[1\]' must be an integer"),
    ({"labels": [1.0, 1e39]}, r"'labels\[1\]' must be a number of float32"),
    ({"labels": [1.0, 10**400]}, r"'labels\[1\]' must be a number of float32"),
    ({"labels": [[1, 2], [3]]}, r"'labels\[1\]' must be a row of 2"),
    ({"labels": [[1, 2], [3, 2**31]]}, r"'labels\[1\]\[1\]' must be an integer of 32 bits"),
    ({"labels": [[], []]}, r"'labels\[0\]' must be a row"),
    ({"labels": np.zeros((2, 0))}, "'labels' must be a label, or a row"),
    ({"labels": np.zeros((2, 1, 1))}, "'labels' must be a label, or a row"),
    ({"labels": [[1, 2], [3, 4]], "num_labels": 3}, "'num_labels' must be 2, as labels has"),
    ({"labels": [[1, 2], [3, 4]], "scalar_labels": True}, "'scalar_labels' must be False, as each file has 2 labels"),
    ({"labels": [1.5, 2], "label_type": "int"}, r"'labels\[0\]' must be an integer"),
    ({"labels": np.array([1.5, 2]), "label_type": "int"}, r"'labels\[0\]' must be an integer"),
    ({"labels": ["a", "c"], "classes": ["a", "b"]}, r"'labels\[1\]' must be one of the 2 names that classes has"),
    ({"labels": ["a", "c"], "classes": ["a", "a"]}, "'classes' must be a list of different names"),
    ({"labels": [1, 2], "classes": ["a", "b"], "label_type": "int"}, "'label_type' must be 'class' where"),
    ({"labels": [1, 2], "label_type": "text"}, "'label_type' must be"),
])  # fmt: skip
def test_wrong_labels_are_named(root, arguments, told):
    with pytest.raises(ArgumentError, match=told):
        File(file_root=root, files=paths(2), **arguments)


@pytest.mark.parametrize(("text", "arguments", "told"), [
    ("a 1\nb 1.5", {}, r"'b 1.5' in line 2 of .*list.txt.*label_type='float'"),
    ("a 1\n\nb cat", {}, r"'b cat' in line 3 of .*label_type='class'"),
    ("a 1 2\nb 1", {"num_labels": 2}, r"'path label label' with an integer.* got str 'b 1' in line 2"),
    ("a 1\nb 2147483648", {}, r"an integer of 32 bits behind each path; got .* in line 2 of .*list.txt"),
    ("a 1e3\nb 1e39", {"label_type": "float"}, r"a number of float32 behind each path; got .* in line 2"),
    ("a cat\nb cow", {"classes": ["cat", "dog"]}, r"one of the 2 names .*; got str 'cow' in line 2 of .*list.txt"),
    ("a 1\nb", {"label_type": "float"}, r"got str 'b' in line 2"),
])  # fmt: skip
def test_wrong_lines_are_named(tmp_path, text, arguments, told):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(ArgumentError, match=told):
        File(file_list=tmp_path / "list.txt", **arguments)


@pytest.mark.parametrize("argument", [{"label_type": "float"}, {"num_labels": 2}, {"classes": ["a"]}])
def test_folders_of_classes_take_no_types_of_labels(root, argument):
    with pytest.raises(ArgumentError, match=f"'{next(iter(argument))}' must be None unless files or file_list"):
        File(file_root=root, **argument)


@pytest.mark.parametrize(("before", "after"), [
    ([0.25, 0.5], [0.25, 0.75]), ([[1, 2], [3, 4]], [[1, 2], [4, 3]]), (["a", "b"], ["b", "a"]), ([1, 2], [1.0, 2.0]),
])  # fmt: skip
def test_a_state_tells_labels_apart(root, before, after):
    first, second = (File(file_root=root, files=paths(2), labels=values) for values in (before, after))
    first(1)
    second.set_state(File(file_root=root, files=paths(2), labels=after).get_state())
    with pytest.raises(StateMismatch, match="labels: the same samples with other labels"):
        second.set_state(first.get_state())


@pytest.mark.parametrize("table", [[0.5, 1.5], [[1, 2], [3, 4]], ["a", "b"]])
def test_a_batch_without_samples_has_labels_of_the_same_type(root, tmp_path, table):
    (tmp_path / "a").mkdir()
    reader = File(file_root=tmp_path, files=["a", "a"], labels=table, on_error="skip")
    found, whole = reader(2)[1], labels(File(file_root=root, files=paths(2), labels=table))
    assert (len(found), found.dtype, found.ndim) == (0, whole.dtype, whole.ndim)
