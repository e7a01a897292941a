"""The documentation site: it builds without a warning, is complete, and needs neither a server nor the network."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import make_site
import pytest

import dynamic as ndd

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")])


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors(text: str) -> set[str]:
    """The anchors of headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", without_code(text), re.M)
    plain = [re.sub(r"[*`]|\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_of_pages_lead_somewhere_on_a_code_host(page):
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", without_code(page.read_text())):
        found = page.parent / target if target else page
        assert found.is_file(), f"a link to {target}"
        if anchor:
            assert anchor in anchors(found.read_text()), f"a link to {target}#{anchor}"


def test_the_reference_has_every_public_module():
    listed = {page.module for page in make_site.REFERENCE.values()}
    listed |= {f"dynamic.{name}" for names in make_site.make_operators.GROUPS.values() for name in names}
    modules = [f"dynamic.{name}" for name in dir(ndd) if inspect.ismodule(getattr(ndd, name)) and name[0] != "_"]
    left = {name for name in modules if not any(f"{page}.".startswith(f"{name}.") for page in listed)}
    assert left == {"dynamic.devices", "dynamic.dtypes"}  # `Device` and `DType` are names of the package itself


def test_the_reference_has_every_public_name():
    named = {name for page in make_site.REFERENCE.values() if page.module == "dynamic" for name in page.names}
    named |= {name for page in make_site.REFERENCE.values() if page.names is None
              for name in importlib.import_module(page.module).__all__}  # fmt: skip
    operators = {name.removeprefix("dynamic.") for name in make_site.operators()}
    assert set(ndd.__all__) - named - operators == set()


class Page(HTMLParser):
    """The links of a page, the files that it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.update(filter(None, [found.get("id"), found.get("name")]))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "link", "source", "iframe"):
            self.loaded += filter(None, [found.get("src"), found.get("href")])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("sphinx", "myst_parser", "pydata_sphinx_theme", "sphinx_copybutton"):
        pytest.importorskip(name, reason="the group 'docs' is not installed")
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run([sys.executable, DOCS / "make_site.py", folder], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_the_site_is_whole_and_needs_no_network(site):
    """One test, so that one process builds it."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if "_static" not in path.parts}
    named = {make_site.placed(path.relative_to(ROOT)).removesuffix(".md") for path in PAGES}
    named |= {f"reference/{name}" for name in make_site.REFERENCE}
    assert {site / f"{name}.html" for name in named} <= pages.keys()

    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                assert link not in page.loaded or target.scheme == "data", f"{path.name} loads {link}"
                continue
            found = (path.parent / unquote(target.path)).resolve() if target.path else path
            assert found.is_file(), f"{path.name} leads to {link}"
            if target.fragment and found in pages:
                assert unquote(target.fragment) in pages[found].anchors, f"{path.name} leads to {link}"
    for path in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", path.read_text()), path.name

    tops = set(re.findall(r'<a class="nav-link nav-internal" href="([^"#]+)"', (site / "index.html").read_text()))
    assert len(tops) == len(make_site.SECTIONS)
    reached, todo = {site / "index.html"}, [site / "index.html"]
    while todo:
        here = todo.pop()
        nearby = {
            (here.parent / urlsplit(link).path).resolve() for link in pages[here].links if not urlsplit(link).scheme
        }
        todo += [path for path in nearby - reached if path in pages]
        reached |= nearby
    assert pages.keys() - reached <= {site / "search.html", site / "genindex.html", site / "py-modindex.html"}
    index = (site / "searchindex.js").read_text()
    assert all(word in index for word in ("readers.File", "gaussian_blur", "load_state_dict"))


@pytest.mark.parametrize("name", ["Reader", "Batch"])
def test_the_reference_is_made_of_docstrings(name):
    module = {"Reader": "readers", "Batch": "tensors"}[name]
    text = "\n".join(make_site.described(make_site.REFERENCE[module], {}))
    if name == "Reader":
        assert text.index("readers.Reader") < text.index("`File` has the methods and attributes of `Reader` too.")
    assert f".. autoclass:: {make_site.REFERENCE[module].module}.{name}\n   :members:" in text
    assert inspect.isclass(getattr(importlib.import_module(make_site.REFERENCE[module].module), name))
