"""A real S3 server on this machine, and a network in front of it that can fail."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holotrace.stores import login, object_store

BUCKET = "traces"
_CHUNK = 1 << 16


@dataclass
class Store:
    """A bucket, and the address that the store's clients are to use."""

    client: Any
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "me",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def put(self, folder: Path, prefix: str) -> str:
        """Copy a folder's files into the bucket; returns the URL they are under."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(folder).as_posix()}")
        return f"s3://{BUCKET}/{prefix}"

    def get(self, key: str) -> bytes:
        content: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def changed(self, prefix: str) -> dict[str, str]:
        """When each file under ``prefix`` was written."""
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", [])
        return {each["Key"].removeprefix(f"{prefix}/"): str(each["LastModified"]) for each in found}


def forget() -> None:
    """Connections are kept, whatever becomes of the environment they were made in."""
    object_store._store.cache_clear()
    login.of_polars.cache_clear()


@contextmanager
def forgotten() -> Iterator[None]:
    forget()
    yield
    forget()


@contextmanager
def serving() -> Iterator[Store]:
    """A server with an empty bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="me", aws_secret_access_key="secret", region_name="us-east-1"
        )
        client.create_bucket(Bucket=BUCKET)
        yield Store(client, endpoint)
    finally:
        server.stop()


@dataclass
class FlakyNetwork:
    """Passes connections on, and cuts off those whose answer exceeds ``most_bytes``, as often as ``cuts`` says."""

    to: tuple[str, int]
    most_bytes: int = 100_000
    cuts: int = 0
    made: int = 0
    answered_bytes: int = 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def endpoint(self) -> str:
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    @contextmanager
    def up(self) -> Iterator[FlakyNetwork]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self.to)
                threading.Thread(target=self._pass_on, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(far, near, True), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, is_answer: bool) -> None:
        count = 0
        with suppress(OSError):
            while content := one.recv(_CHUNK):
                count += len(content)
                self.answered_bytes += len(content) if is_answer else 0
                if is_answer and count > self.most_bytes and self.cuts > 0:
                    self.cuts -= 1
                    self.made += 1
                    break
                other.sendall(content)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
