"""Addresses of objects, such as "s3://bucket/train/1.jpg", and all in them that must stay secret."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dynamic.errors import ArgumentError, shown

__all__ = ["BY_HTTP", "check_address", "has_query", "is_address", "plain", "safe", "scheme_of", "secrets_of"]

BY_HTTP = ("http", "https")  # schemes
_KEYED = ("s3", "s3a", "gs", "gcs", "hf", "memory")  # schemes of which names may have a "?"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # two letters at least, as one is a drive of Windows
_URLS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"<>]*)")


def is_address(path: str) -> bool:
    """Whether a path is an address such as "s3://bucket/train"."""
    return "://" in path and _SCHEME.match(path) is not None


def plain(address: str) -> str:
    """An address without a user, a password and a query, as errors and names of samples have it.

    A query that is no signature tells objects apart; a digest stands for it.
    """
    found = _SCHEME.match(address)
    if found is None:
        return address
    host, slash, path = address[found.end() :].partition("/")
    host = host.rpartition("@")[2]
    if has_query(address):
        (host, *query), (path, *more) = host.split("?", 1), re.split("[?#]", path, maxsplit=1)
        query += more
        if query and not re.search("(?i)sign|expires|^sv=|&sv=|token|[?&]key|credential", query[0]):
            path += f"?{hashlib.blake2b(query[0].encode(), digest_size=8).hexdigest()}"
    return f"{found[1].lower()}://{host}{slash}{path}"


def check_address(operator: str, argument: str, address: str) -> None:
    """Refuse an address of a store that cannot be read here.

    Raises:
        ArgumentError: Its scheme is unknown, or a package is missing.
    """
    found = _SCHEME.match(address)
    assert found is not None
    scheme, told = found[1].lower(), shown(plain(address))
    if not address[found.end() :].strip("/"):
        expected = "a path on this machine, or an address such as 's3://bucket/train'"
        raise ArgumentError(operator, argument, expected, told)
    if scheme in ("file", "local"):
        hint = f"Write {address[found.end() :]!r}."
        raise ArgumentError(operator, argument, "a path on this machine, not an address", told, hint)
    if importlib.util.find_spec("fsspec") is None:
        hint = "Or pip install 'dynamic-batch[remote]', which has fsspec."
        raise ArgumentError(operator, argument, "a path on this machine, not an address", told, hint)
    from fsspec.registry import get_filesystem_class, known_implementations, registry

    if scheme not in known_implementations and scheme not in registry:
        expected = "a path, or an address of a store that fsspec knows, such as s3://, gs://, hf:// or https://"
        raise ArgumentError(operator, argument, expected, told)
    missing = None
    try:
        get_filesystem_class(scheme)
    except ImportError as error:
        missing = error.name
    if missing is not None or scheme not in registry:
        hint = {
            "s3": "pip install 'dynamic-batch[remote]'", "s3a": "pip install 'dynamic-batch[remote]'",
            "http": "pip install 'dynamic-batch[remote]'", "https": "pip install 'dynamic-batch[remote]'",
            "gs": "pip install gcsfs", "gcs": "pip install gcsfs", "hf": "pip install huggingface_hub",
            "az": "pip install adlfs", "abfs": "pip install adlfs",
        }.get(scheme) or str(known_implementations.get(scheme, {}).get("err", "a package is missing"))  # fmt: skip
        expected = f"a path, or an address of a store that can be read: a package is missing for {scheme}://"
        raise ArgumentError(operator, argument, expected, told, f"{hint}.")


def has_query(address: str) -> bool:
    """Whether the query of an address is no part of a name."""
    return "?" in address and scheme_of(address) not in _KEYED


def scheme_of(address: str) -> str:
    """The scheme of an address."""
    return address.partition("://")[0].lower()


def secrets_of(options: Any) -> Iterator[str]:
    """All texts in options, which may be secret; addresses are cut in another way."""
    if isinstance(options, Mapping):
        for each in options.values():
            yield from secrets_of(each)
    elif isinstance(options, (list, tuple)):
        for each in options:
            yield from secrets_of(each)
    elif isinstance(options, str) and len(options) >= 4 and not is_address(options):
        yield options


def safe(text: str, secrets: Iterable[str]) -> str:
    """A message of a library on one line, without some words, and without queries, users and passwords of addresses."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _URLS.sub(lambda found: plain(found[0]).partition("?")[0], text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
