"""Builds the documentation site: the pages of this folder, and a reference made from docstrings.

    python docs/make_site.py build/site

Sphinx reads a copy of the pages, in which links out of `docs/` lead to their places on the site. Warnings are errors.
The site works without a server and without the network: open `index.html`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shutil
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import make_operators

import dynamic

DOCS = Path(__file__).parent
ROOT = DOCS.parent


class Section(NamedTuple):
    """A part of the site: a tab at its top."""

    title: str
    text: str  #: introduction of its page
    groups: Mapping[str, Sequence[str]]  #: pages by the heading above them

    @property
    def place(self) -> str:
        """The path of its page."""
        return self.title.lower().replace("-", "_").replace(" ", "_") + "/index.md"


REST = "More"  #: the heading above pages that no section names

SECTIONS = [
    Section(
        "Tutorial",
        "One small network, from a folder of photos to a run on two processes. Each page takes ten minutes. "
        "The notebooks show batches, checkpoints and draws, with their results.",
        {
            "": [
                "tutorial/train.md",
                "tutorial/look.md",
                "tutorial/resume.md",
                "tutorial/speed.md",
                "tutorial/ranks.md",
            ],
            "Notebooks": ["notebooks/look.md", "notebooks/resume.md", "notebooks/draws.md"],
        },
    ),
    Section(
        "How-to guides",
        "A page for each capability. Each begins with a working example.",
        {
            "Data": [
                "readers.md",
                "map.md",
                "mix.md",
                "selection.md",
                "remote.md",
                "images.md",
                "volumes.md",
                "video.md",
                "sound.md",
                "damaged.md",
            ],
            "Augmentation": ["augmentation.md", "boxes_and_masks.md", "randomness.md", "custom_operators.md"],
            "Training": [
                "trainers.md",
                "checkpoints.md",
                "pipelines.md",
                "measuring.md",
                "gpu.md",
                "gpu_results.md",
                "machines.md",
                "scale.md",
            ],
            "Coming from another library": ["migrating.md", "differences.md", "parity.md"],
        },
    ),
    Section(
        "Operators",
        "",
        {"": [f"operators/{make_operators.slug(title)}.md" for title in make_operators.GROUPS] + ["gallery.md"]},
    ),
    Section("Reference", "All public names, by module. Operators have [pages of their own](../operators.md).", {}),
    Section(
        "Explanation",
        "The design, the reasons behind it, and the measurements.",
        {
            "Design": ["design.md", "decisions/index.md"],
            "Measurements": ["performance.md", "agreement.md", "reliability.md", "threat_model.md"],
        },
    ),
    Section(
        "Project",
        "Questions, changes, and ways to help.",
        {
            "": ["faq.md", "changelog.md", "stability.md", "licences.md"],
            "Help": ["contributing.md", "code_of_conduct.md", "security.md"],
        },
    ),
]


class Module(NamedTuple):
    """A page of the reference: the public names of a module."""

    title: str
    module: str
    names: Sequence[str] | None = None  #: by default those of `__all__`


REFERENCE = {
    "tensors": Module(
        "Tensors and batches", "dynamic", ["Tensor", "Batch", "as_tensor", "as_batch", "tensor", "batch", "Origin"]
    ),
    "dtypes": Module(
        "Element types and devices",
        "dynamic",
        ["DType", "dtype", "type_id", "Device", "device", "DataType", "ImageType", "InterpType", "bfloat16", "float16",
         "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
    ),
    "running": Module(
        "Threads, streams and measurements",
        "dynamic",
        ["prefetch", "measure", "get_num_threads", "set_num_threads", "show_config", "EvalContext", "EvalMode",
         "ThreadPool", "Stream", "stream", "get_current_stream", "get_default_stream", "set_current_stream",
         "set_default_stream"],
    ),
    "readers": Module("Readers", "dynamic.readers"),
    "checkpoint": Module("Checkpoints", "dynamic.checkpoint"),
    "legacy": Module("Pickled states", "dynamic.checkpoint.legacy"),
    "random": Module("Random numbers", "dynamic.random"),
    "pytorch": Module("PyTorch", "dynamic.pytorch"),
    "nodes": Module("Nodes of torchdata", "dynamic.pytorch.nodes"),
    "jax": Module("JAX", "dynamic.jax"),
    "tensorflow": Module("TensorFlow", "dynamic.tensorflow"),
    "ray": Module("Ray", "dynamic.ray"),
    "pipeline": Module("Pipelines", "dynamic.pipeline"),
    "tensors_of_pipelines": Module("Outputs of pipelines", "dynamic.pipeline.tensors"),
    "auto_augment": Module("AutoAugment", "dynamic.auto_aug.auto_augment"),
    "rand_augment": Module("RandAugment", "dynamic.auto_aug.rand_augment"),
    "trivial_augment": Module("TrivialAugment", "dynamic.auto_aug.trivial_augment"),
    "augmentations": Module("Augmentations of policies", "dynamic.auto_aug.augmentations"),
    "policies": Module("Policies of your own", "dynamic.auto_aug.core"),
    "custom": Module("Operators of your own", "dynamic.custom"),
    "testing": Module("Tests", "dynamic.testing"),
    "errors": Module("Errors and warnings", "dynamic.errors"),
    "types": Module("DALI's enumerations", "dynamic.types"),
    "capture": Module("Capture", "dynamic.capture"),
}  # fmt: skip

#: Ancestors whose members are known from elsewhere.
KNOWN = (
    "object, BaseException, Exception, Sequence, Mapping, dict, tuple, int, str, Enum, NDArrayOperatorsMixin, Generic"
)


def adapters() -> None:
    """Give adapters their classes where torch or TensorFlow is missing: without the base classes of those."""
    for module, classes in (
        ("pytorch", {"Loader": "_loader.Loading", "Dataset": "_dataset.Batches"}),
        ("pytorch.nodes", {"Reader": "Readers", "DictMapper": "Mappers", "ToTorch": "Converters"}),
        ("tensorflow", {"Dataset": "Batches"}),
    ):
        package = importlib.import_module(f"dynamic.{module}")
        for name, path in classes.items():
            *rooms, last = path.split(".")
            found = getattr(importlib.import_module(".".join([package.__name__, *rooms])), last)
            documented = {"__module__": package.__name__, "__doc__": found.__doc__}
            setattr(package, name, type(name, (found,), documented))


def operators() -> dict[str, str]:
    """The pages of operators by the full names of those."""
    found = {}
    for title, modules in make_operators.GROUPS.items():
        for item in (item for module in modules for item in make_operators.members(module)):
            place = f"operators/{make_operators.slug(title)}.md#{make_operators.anchor(item.name)}"
            found[f"dynamic.{item.name}"] = found[f"dynamic.{item.name.rpartition('.')[2]}"] = place
    return found


def described(page: Module, elsewhere: Mapping[str, str]) -> Iterator[str]:
    """The text of a page of the reference, in Sphinx's own words."""
    module = importlib.import_module(page.module)
    yield f"# {page.title}\n"
    if page.names is None:
        yield "```{eval-rst}\n.. automodule:: " + page.module + "\n   :no-members:\n```\n"
    values = []
    objects = {name: getattr(module, name) for name in page.names or module.__all__}
    classes = {object: name for name, object in objects.items() if inspect.isclass(object)}
    told = {object: [classes[base] for base in object.__mro__[1:] if base in classes] for object in classes}
    parents = {name for names in told.values() for name in names}
    for name, object in sorted(objects.items(), key=lambda item: item[0] not in parents):  # parents first
        full = f"{page.module}.{name}"
        if inspect.isclass(object):
            members = f"   :members:\n   :inherited-members: {', '.join([*told[object], KNOWN])}\n"
            yield f"```{{eval-rst}}\n.. autoclass:: {full}\n{members}```\n"
            if told[object] and not issubclass(object, BaseException):
                yield f"`{name}` has the methods and attributes of `{told[object][0]}` too.\n"
        elif full in elsewhere:
            yield f"- [{full.removeprefix('dynamic.')}](../{elsewhere[full]})\n"
        elif inspect.isroutine(object) or hasattr(object, "__wrapped__"):
            yield f"```{{eval-rst}}\n.. autofunction:: {full}\n```\n"
        elif not inspect.ismodule(object):
            values.append(f"`{name}`")
    if values:
        yield f"## Values\n\n{', '.join(values)}.\n"


def placed(path: PurePosixPath) -> str:
    """The place on the site of a file of the repository."""
    if path.suffix == ".ipynb":
        path = path.with_suffix(".md")
    if path.suffix == ".md" and path.parts[0] == "docs":
        inside = path.relative_to("docs")
        return str(inside.with_name("index.md") if inside.name == "README.md" else inside)
    if path.suffix == ".md" and len(path.parts) == 1:
        return "index.md" if path.name == "README.md" else path.name.lower()
    return str(path.relative_to("docs")) if path.parts[0] == "docs" else f"files/{path}"


def moved(text: str, source: PurePosixPath) -> tuple[str, set[PurePosixPath]]:
    """A page with the links that it needs on the site, and the files that they lead to."""
    here = PurePosixPath(placed(source)).parent
    targets = set()

    def link(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        path = PurePosixPath(os.path.normpath(source.parent / target))
        targets.add(path)
        return f"]({os.path.relpath(placed(path), here)}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    parts[::2] = [re.sub(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)", link, part) for part in parts[::2]]
    return re.sub(r"\n+```$", "\n```", "".join(parts), flags=re.M), targets


def converted(path: Path, folder: Path) -> str:
    """A notebook as a page. Its pictures, and itself for readers who download it, are put into a folder."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / path.name)
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/jpeg" in data:
                picture = folder / f"{path.stem}-{len(parts)}.jpg"
                picture.write_bytes(b64decode(data["image/jpeg"]))
                parts.append(f"![the result]({picture.name})")
            elif "text/html" in data:
                parts.append(f"```{{raw}} html\n{''.join(data['text/html'])}\n```")
            else:
                text = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```{{code-block}} text\n:class: output\n\n{text}\n```")
    title, *rest = parts
    heading, _, text = title.partition("\n")
    download = f"This page is a notebook. Download it: {{download}}`{path.name}`."
    return "\n\n".join([heading, text.strip(), download, *rest]) + "\n"


def tree(pages: Sequence[str], caption: str = "", depth: int = 1, hidden: bool = False) -> str:
    """A table of contents."""
    options = [f":maxdepth: {depth}", *([f":caption: {caption}"] if caption else []), *([":hidden:"] if hidden else [])]
    return "\n".join(["```{toctree}", *options, "", *[f"/{page}" for page in pages], "```", ""])


def stage(folder: Path) -> None:
    """Write all pages of the site, as Sphinx reads them."""
    texts: dict[str, str] = {}
    files: set[PurePosixPath] = set()
    for source in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]:
        path = PurePosixPath(source.relative_to(ROOT).as_posix())
        is_notebook = source.suffix == ".ipynb"
        text = converted(source, (folder / placed(path)).parent) if is_notebook else source.read_text()
        texts[placed(path)], targets = moved(text, path)
        files |= {target for target in targets if target.suffix not in (".md", ".ipynb") and (ROOT / target).is_file()}
    for file in files:
        (folder / placed(file)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, folder / placed(file))

    elsewhere = operators()
    reference = {f"reference/{name}.md": "\n".join(described(page, elsewhere)) for name, page in REFERENCE.items()}
    texts |= reference
    decisions = sorted(path for path in texts if path.startswith("decisions/") and path != "decisions/index.md")
    texts["decisions/index.md"] += "\n" + tree(decisions, hidden=True)
    named = {page for section in SECTIONS for pages in section.groups.values() for page in pages}
    named |= {*reference, *decisions, "index.md", "operators.md"}
    rest = sorted(texts.keys() - named)
    tops = []
    for section in SECTIONS:
        groups = {title: [page for page in pages if page in texts] for title, pages in section.groups.items()}
        if section.title == "Reference":
            groups[""] = list(reference)
        if section.title == "How-to guides" and rest:
            groups[REST] = rest
        contents = "\n".join(tree(pages, title, hidden=section.title == "Operators") for title, pages in groups.items())
        top = "operators.md" if section.title == "Operators" else section.place
        texts[top] = "\n".join([texts.get(top) or f"# {section.title}\n\n{section.text}\n", contents])
        tops.append(top)
    texts["index.md"] += "\n" + tree(tops, hidden=True)
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copytree(DOCS / "site", folder / "_static")


SETTINGS = {
    "project": "dynamic",
    "copyright": "the authors of dynamic, Apache-2.0",
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"],
    "default_role": "code",  # docstrings mark code by single backticks
    "suppress_warnings": ["myst.header"],  # entries of a changelog skip a level
    "myst_heading_anchors": 4,
    "autodoc_member_order": "bysource",
    "autodoc_typehints": "description",
    "autodoc_typehints_description_target": "documented",
    "toc_object_entries_show_parents": "hide",
    "napoleon_use_ivar": True,
    "python_use_unqualified_type_names": True,
    "python_display_short_literal_types": True,
    "copybutton_prompt_text": r">>> |\.\.\. |\$ ",
    "copybutton_prompt_is_regexp": True,
    "html_theme": "pydata_sphinx_theme",
    "html_title": "dynamic",
    "html_static_path": ["_static"],
    "html_css_files": ["style.css"],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_theme_options": {
        "header_links_before_dropdown": len(SECTIONS),
        "show_prev_next": True,
        "navigation_with_keys": False,
        "secondary_sidebar_items": ["page-toc"],
        "footer_start": ["copyright"],
        "footer_end": [],
    },
    "html_sidebars": {"index": []},
}


def properties(app: Any) -> None:
    """Hide the docstrings of properties from Napoleon, which takes the words before a colon for a type."""
    kept: list[str] = []

    def hide(_app: Any, what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
        if what in ("property", "attribute", "data"):
            kept[:] = lines
            lines.clear()

    def show(_app: Any, what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
        if what in ("property", "attribute", "data"):
            lines[:] = kept

    app.connect("autodoc-process-docstring", hide, priority=400)
    app.connect("autodoc-process-docstring", show, priority=600)


def build(output: Path) -> None:
    """Build the site.

    Raises:
        RuntimeError: Sphinx warned: of a link that leads nowhere, of a docstring that it cannot read.
    """
    from sphinx.application import Sphinx

    adapters()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        stage(source)
        settings = SETTINGS | {"version": dynamic.__version__, "release": dynamic.__version__}
        app = Sphinx(
            source, None, output, Path(folder) / "read", "html", confoverrides=settings, status=None, freshenv=True
        )
        properties(app)
        app.build()
    if app._warncount:
        raise RuntimeError(f"Sphinx has warned {app._warncount} times, as shown above.")


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site"))
