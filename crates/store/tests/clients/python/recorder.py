"""Writes down what a store answers, without what no two stores can have in common.

Each line is `label<TAB>value`: one aspect of one answer. Times, ids, tokens and hosts are replaced
by the word for them, bodies by their length and MD5.
"""

import base64
import datetime
import hashlib
import http.client
import json
import os
import re
from urllib.parse import quote, urlsplit

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

URL, KEY, SECRET = (os.environ[name] for name in ("S3_URL", "S3_KEY", "S3_SECRET"))
MIB = 1024 * 1024
IDS = {
    "UploadId": "(id)", "UploadIdMarker": "(id)", "NextUploadIdMarker": "(id)", "NextContinuationToken": "(token)",
    "ContinuationToken": "(token)", "Owner": "(owner)", "Initiator": "(owner)", "RequestId": "(id)", "HostId": "(id)",
}
HEADERS = re.compile(
    "etag|content-range|content-type|content-encoding|content-language|content-disposition|cache-control|expires|location"
    "|x-amz-(meta-.*|checksum-.*|tagging-count|mp-parts-count|delete-marker|version-id)"
)


def mk_client(key=KEY, secret=SECRET, **options):
    settings = {"signature_version": "s3v4", "s3": {"addressing_style": "path"}, "retries": {"max_attempts": 1}, "parameter_validation": False}
    region = options.pop("region", "us-east-1")
    settings.update(options)
    return boto3.client(
        "s3", endpoint_url=URL, aws_access_key_id=key, aws_secret_access_key=secret, region_name=region,
        config=Config(**settings),
    )


s3 = mk_client()
# Sends no checksums of its own, as clients did before they were common.
plain = mk_client(request_checksum_calculation="when_required", response_checksum_validation="when_required")
lines = set()


def note(label, value):
    assert label not in lines, f"{label} twice"
    lines.add(label)
    print(f"{label}\t{json.dumps(value, sort_keys=True, ensure_ascii=False)}", flush=True)


def md5(body):
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def sum_of(body):
    return f"{len(body)} bytes, {hashlib.md5(body).hexdigest()}"


def tidy(value, name=None):
    if name in IDS:
        return IDS[name] if value else value
    if name == "Location" and isinstance(value, str):
        return re.sub("^https?://[^/]*", "", value)
    if name == "NextMarker":
        # MinIO adds a note for itself.
        return re.sub(r"\[minio_cache:.*\]$", "", value)
    if isinstance(value, dict):
        kept = {key: tidy(one, key) for key, one in value.items() if key != "ResponseMetadata"}
        if not kept.get("IsTruncated"):
            # Where to go on means nothing on the last page.
            kept.pop("NextPartNumberMarker", None)
        # An element without text says as much as no element.
        return {key: one for key, one in kept.items() if one != ""}
    if isinstance(value, list):
        return [tidy(one) for one in value]
    if isinstance(value, datetime.datetime):
        return "(time)" if abs(value.timestamp() - datetime.datetime.now().timestamp()) < 3600 else str(value)
    if hasattr(value, "read"):
        return sum_of(value.read())
    return value


def call(label, method, **arguments):
    """Asks by boto3, and notes the answer. Returns it, or None if it was an error."""
    try:
        answer = method(**arguments)
    except ClientError as error:
        found = error.response
        note(f"{label}.status", found["ResponseMetadata"]["HTTPStatusCode"])
        note(f"{label}.code", found["Error"]["Code"])
        headers = found["ResponseMetadata"]["HTTPHeaders"]
        status = found["ResponseMetadata"]["HTTPStatusCode"]
        if status == 304:
            note(f"{label}.etag", headers.get("etag"))
        if status == 416:
            note(f"{label}.content-range", headers.get("content-range"))
        return None
    note(f"{label}.status", answer["ResponseMetadata"]["HTTPStatusCode"])
    for name, value in tidy(answer).items():
        note(f"{label}.{name}", value)
    return answer


def quietly(method, **arguments):
    """For what only prepares the scene."""
    return method(**arguments)


def send(label, method, path, headers=None, body=None, show=HEADERS):
    """Any request over HTTP, and what came back."""
    connection = http.client.HTTPConnection(urlsplit(URL).netloc, timeout=60)
    connection.request(method, path, body=body, headers=headers or {})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    note(f"{label}.status", answer.status)
    is_error = answer.status >= 300
    if is_error:
        code = re.search(b"<Code>(.*?)</Code>", found)
        note(f"{label}.code", code.group(1).decode() if code else sum_of(found))
    elif found:
        root = re.search(b"<([A-Za-z]+)[ >]", found) if found.startswith(b"<?xml") else None
        note(f"{label}.body", root.group(1).decode() if root else sum_of(found))
    shown = {name.lower(): value for name, value in answer.headers.items() if show.fullmatch(name.lower())}
    if is_error or shown.get("content-type") == "application/xml":
        shown.pop("content-type", None)
    note(f"{label}.headers", shown)
    return answer


class Auth(S3SigV4Auth):
    """Signs whatever hash of the body the request names."""

    def payload(self, request):
        return request.headers["X-Amz-Content-SHA256"]

    def _modify_request_before_signing(self, request):
        kind = request.headers["X-Amz-Content-SHA256"]
        super()._modify_request_before_signing(request)
        del request.headers["X-Amz-Content-SHA256"]
        request.headers["X-Amz-Content-SHA256"] = kind


def sign(method, path, headers=None, body=b"", key=KEY, secret=SECRET, kind=None, region="us-east-1"):
    """The headers of a signed request."""
    kind = kind or hashlib.sha256(body).hexdigest()
    request = AWSRequest(method=method, url=URL + path, headers={"X-Amz-Content-SHA256": kind, **(headers or {})})
    Auth(Credentials(key, secret), "s3", region).add_auth(request)
    return dict(request.headers.items())


def signed(label, method, path, headers=None, body=b"", show=HEADERS, **how):
    return send(label, method, path, sign(method, path, headers, body, **how), body or None, show)


def path_of(bucket, key=""):
    return f"/{bucket}/{quote(key, safe='/~-._')}" if key else f"/{bucket}"
