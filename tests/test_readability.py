"""Pages and docstrings are plain: a figure of readability, and no clauses that begin with "what"."""

from __future__ import annotations

import count_words
import pytest

EASE = 50  # Flesch's reading ease of a newspaper


@pytest.fixture(scope="module")
def counts():
    return count_words.pages() | count_words.rooms()


def test_pages_and_docstrings_are_easy_to_read(counts):
    assert len(counts) > 90
    hard = {name: round(count.ease, 1) for name, count in counts.items() if count.ease < EASE}
    assert not hard, "shorten their sentences"


def test_nouns_take_the_place_of_what(counts):
    found = {name: count.whats for name, count in counts.items() if count.whats}
    assert sum(found.values()) < 40, found


@pytest.mark.parametrize(
    ("text", "words", "sentences", "syllables"),
    [
        ("The cat sat. The idea is an area!", 8, 2, 12),
        ("# A heading\n\n- one\n  more\n- two\n\n| a | table |\n", 3, 2, 3),
        ("Call `resize(images)` of [the page](page.md#an-anchor).\n\n```python\nlong = code\n```\n", 5, 1, 5),
        (">>> 1 + 1\n2\n\n    indented = code\n\nText.", 1, 1, 1),
        ("> A well-known word\n> of **two** lines e.g. this", 9, 1, 10),
        ("", 0, 0, 0),
    ],
)
def test_prose_is_counted_without_code_and_marks(text, words, sentences, syllables):
    assert count_words.of_page(text)[:3] == (words, sentences, syllables)


def test_the_ease_is_that_of_flesch():
    count = count_words.of_page("The idea of an epoch is simple. Every sample comes once.")
    assert count[:3] == (11, 2, 18)
    assert count.ease == pytest.approx(206.835 - 1.015 * 5.5 - 84.6 * 18 / 11)


def test_docstrings_comments_and_messages_are_counted():
    module = '''
"""Make what is wanted."""

def double(x):
    """Double a number.

    Args:
        x: A number. What else?

    Raises:
        ValueError: It is none.

    >>> double(2)
    4
    """
    what = 2  # what a name
    raise ValueError(f"{what} is not what x is")
'''
    count = count_words.of_module(module)
    assert (count.words, count.sentences, count.whats) == (4 + 3 + 4 + 3, 5, 4)
