"""Who asks an object store: credentials as the clouds' own tools find them, and what to do where there are none."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Any

from holotrace.errors import require
from holotrace.stores.places import AZURE, GOOGLE, S3, WEB, Remote

_RENEWED = timedelta(minutes=5)  # AWS credentials are asked for anew so often; those of a role change every hour

# How a store says that it was not told, or does not know, who asks; at that address clouds tell a machine's own role.
NO_LOGIN = (
    r"169\.254|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|MissingAccount|\b401 |Account must"
)
_ADVICE = {
    S3: "log in with 'aws configure' or 'aws sso login', or set AWS_SKIP_SIGNATURE=true for a public bucket",
    GOOGLE: "log in with 'gcloud auth application-default login', "
    "or set GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    AZURE: "set AZURE_STORAGE_ACCOUNT_NAME, and log in with 'az login' and set AZURE_USE_AZURE_CLI=true, "
    "or set AZURE_STORAGE_ACCOUNT_KEY",
    WEB: "give a signed URL",
}


def advice(remote: Remote) -> str:
    """What to do where ``remote`` knows nobody."""
    return next(text for schemes, text in _ADVICE.items() if remote.scheme in schemes)


def of_store(scheme: str) -> dict[str, Any]:
    """What obstore must be told beside the address: nothing where it finds it itself, or nobody is logged in."""
    if scheme not in S3:
        return {}
    session = require("boto3", extra="remote").Session()
    region = {"region": session.region_name} if session.region_name else {}
    if session.get_credentials() is None:
        return region
    provider = require("obstore.auth.boto3", extra="remote").Boto3CredentialProvider
    return {**region, "credential_provider": provider(session, ttl=_RENEWED)}


@lru_cache
def of_polars(scheme: str) -> dict[str, Any]:
    """What makes Polars log in as obstore does; it reads the same variables of the environment."""
    if scheme not in S3:
        return {"credential_provider": None}
    found = of_store(scheme)
    options = {"aws_region": found["region"]} if "region" in found else {}
    ask = found.get("credential_provider")
    return {"credential_provider": None if ask is None else _as_polars_asks(ask), "storage_options": options}


# Any: obstore and Polars call them alike, with other names for what they return.
def _as_polars_asks(ask: Any) -> Any:
    def credentials() -> tuple[dict[str, str], int]:
        now = ask()
        named = {
            "aws_access_key_id": now["access_key_id"],
            "aws_secret_access_key": now["secret_access_key"],
            "aws_session_token": now["token"],
        }
        return {name: value for name, value in named.items() if value}, int(now["expires_at"].timestamp())

    return credentials
