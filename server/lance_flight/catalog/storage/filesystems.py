"""Directories and object stores for listing, copying and deleting; Lance reaches its tables by itself.

One set of storage options serves both: the names are those of Lance.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import pyarrow as pa
import pyarrow.fs as pafs

from lance_flight.errors import InvalidInput

RETRIES = 4
"""Times that a request of listing, reading or deleting is sent again, with jittered pauses that double: about seven seconds in all."""
LANCE_RETRIES = {"client_max_retries": "6"}
"""The same for Lance, whose pauses begin shorter."""
_S3_OPTIONS = {
    "access_key": ("aws_access_key_id", "access_key_id"),
    "secret_key": ("aws_secret_access_key", "secret_access_key"),
    "session_token": ("aws_session_token", "session_token"),
    "region": ("aws_region", "region"),
    "endpoint_override": ("aws_endpoint", "endpoint", "aws_endpoint_url"),
}
"""Names of options in pyarrow and in Lance; options that are not given come from the environment."""


def filesystem(uri: str, options: Mapping[str, str]) -> tuple[pafs.FileSystem, str]:
    """Return the file system that a place lies on, and its path there."""
    scheme, separator, path = uri.partition("://")
    if not separator:
        return pafs.LocalFileSystem(), uri
    if scheme == "s3":
        environment = {name.lower(): value for name, value in os.environ.items() if name.startswith("AWS_")}
        return _s3(tuple(sorted((environment | {**options}).items()))), path
    try:
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as exc:
        raise InvalidInput(
            f"{uri!r} is no place that is known ({exc}); expected a directory, or s3://bucket/prefix"
        ) from exc
    return found


@cache
def _s3(options: tuple[tuple[str, str], ...]) -> pafs.S3FileSystem:
    given = dict(options)
    known = {
        name: next((given[theirs] for theirs in names if theirs in given), None) for name, names in _S3_OPTIONS.items()
    }
    allows_http = any(given.get(name, "").lower() == "true" for name in ("allow_http", "aws_allow_http"))
    scheme = "http" if allows_http else "https"
    patient = pafs.AwsStandardS3RetryStrategy(max_attempts=1 + RETRIES)
    return pafs.S3FileSystem(
        scheme=scheme,
        retry_strategy=patient,
        # A small file is one request, not the three of an upload by parts.
        allow_delayed_open=True,
        **{name: value for name, value in known.items() if value is not None},
    )
