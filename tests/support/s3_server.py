"""An S3 server on this machine, in this process: moto's. It can be stopped and started again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loopback import free_ports

SECRET = "not-to-be-seen-anywhere"


@dataclass(slots=True)
class S3Server:
    """A server with one bucket.

    Attributes:
        port: on 127.0.0.1.
        bucket: its name.
    """

    port: int
    bucket: str = "corpora"
    server: Any = field(default=None, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """What programs need to find it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "MLFLOW_S3_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "NO_PROXY": "127.0.0.1",
        }

    def start(self) -> None:
        """Unless it runs already."""
        if self.server is not None:
            return
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self.server.start()
        self.port = self.server.get_host_and_port()[1]

    def stop(self) -> None:
        """Its buckets stay, for when it is started again."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def client(self) -> Any:
        """To look and to write past bpeline."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="tester",
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def url(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def put(self, key: str, content: bytes) -> str:
        """Store an object; its URL."""
        self.client().put_object(Bucket=self.bucket, Key=key, Body=content)
        return self.url(key)

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client().get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket, Prefix=prefix)
        return [one["Key"] for page in found for one in page.get("Contents", ())]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A started server with an empty bucket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = S3Server(*free_ports(1))
    server.start()
    try:
        server.client().create_bucket(Bucket=server.bucket)
        yield server
    finally:
        server.stop()
