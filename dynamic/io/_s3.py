"""Requests for objects of S3, signed here: the client library takes a millisecond of the processor for each."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

__all__ = ["Bucket", "bucket_of"]

#: The options that change only the knowledge of the client, and no request.
_KNOWN = frozenset(["key", "secret", "token", "anon", "endpoint_url", "profile", "client_kwargs", "config_kwargs",
                    "use_listings_cache"])  # fmt: skip
_OF_CLIENT = frozenset(["endpoint_url", "region_name", "aws_access_key_id", "aws_secret_access_key",
                        "aws_session_token"])  # fmt: skip
_OF_CONFIG = frozenset(["max_pool_connections", "retries", "read_timeout", "connect_timeout"])
_UNSIGNED = "UNSIGNED-PAYLOAD"


class Bucket(NamedTuple):
    """How to ask for the objects of a bucket."""

    url: str  #: which the quoted key follows
    region: str
    credentials: Any  #: of the client; None where requests are not signed

    async def request(self, key: str) -> tuple[str, dict[str, str]]:
        """The address of an object, and headers."""
        url = self.url + quote(key, safe="/~")
        if self.credentials is None:
            return url, {}
        keys = await self.credentials.get_frozen_credentials()
        return url, signed(url, keys.access_key, keys.secret_key, keys.token, self.region, datetime.now(UTC))


async def bucket_of(system: Any, name: str, options: Mapping[str, Any]) -> Bucket | None:
    """A bucket as the client of s3fs knows it; None where there is more to its requests than is done here."""
    plain = (
        options.keys() <= _KNOWN
        and options.get("client_kwargs", {}).keys() <= _OF_CLIENT
        and options.get("config_kwargs", {}).keys() <= _OF_CONFIG
        and not getproxies()
    )
    if not plain:
        return None
    await system.set_session()
    client = await system.get_s3(name)
    address: str = await client.generate_presigned_url("get_object", Params={"Bucket": name, "Key": "k"})
    signer = client._request_signer
    url = address.partition("?")[0]
    if url.startswith("https:") and {"AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"} & os.environ.keys():
        return None
    if not url.endswith("/k") or ":" in name or (not system.anon and signer._credentials is None):
        return None
    return Bucket(url[:-1], signer.region_name or "us-east-1", None if system.anon else signer._credentials)


def signed(url: str, key: str, secret: str, token: str | None, region: str, now: datetime) -> dict[str, str]:
    """The headers of a signed request for an object: Signature Version 4 of AWS."""
    split, time = urlsplit(url), f"{now:%Y%m%dT%H%M%SZ}"
    told = {"host": split.netloc, "x-amz-content-sha256": _UNSIGNED, "x-amz-date": time}
    if token:
        told["x-amz-security-token"] = token
    names = ";".join(told)
    lines = ["GET", split.path, split.query, *(f"{name}:{value}" for name, value in told.items()), "", names, _UNSIGNED]
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    code = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"):
        code = hmac.digest(code, part.encode(), "sha256")
    told["Authorization"] = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={code.hex()}"
    del told["host"]
    return told
