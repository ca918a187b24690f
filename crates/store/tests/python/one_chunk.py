"""Uploads an object as a single chunk with a trailer, as some clients do."""

import io
import os

import boto3
import botocore.httpchecksum
from botocore.config import Config

SIZE = 160 * 1024 * 1024
wrapped = botocore.httpchecksum.AwsChunkedWrapper


class OneChunk(wrapped):
    def __init__(self, raw, **options):
        options["chunk_size"] = SIZE
        super().__init__(raw, **options)


botocore.httpchecksum.AwsChunkedWrapper = OneChunk
sent = []


def look(request, **_):
    sent.append(request.headers.get("X-Amz-Content-SHA256"))


s3 = boto3.client(
    "s3",
    endpoint_url=os.environ["S3_URL"],
    aws_access_key_id=os.environ["S3_KEY"],
    aws_secret_access_key=os.environ["S3_SECRET"],
    region_name="us-east-1",
    config=Config(signature_version="s3v4", s3={"addressing_style": "path", "payload_signing_enabled": False}),
)
s3.meta.events.register("before-send.s3.PutObject", look)
body = os.urandom(1024 * 1024) * 160
put = s3.put_object(Bucket="data", Key="one", Body=io.BytesIO(body), ChecksumAlgorithm="CRC32")
assert sent and sent[0] in (b"STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"), sent
got = s3.get_object(Bucket="data", Key="one", ChecksumMode="ENABLED")
assert got["Body"].read() == body and got["ChecksumCRC32"] == put["ChecksumCRC32"]
