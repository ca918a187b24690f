"""Bodies in chunks (`aws-chunked`), made by hand: signed and not, with and without a trailer."""

import base64
import hashlib
import hmac
import http.client
import os
import zlib
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

URL, KEY, SECRET = (os.environ[name] for name in ("S3_URL", "S3_KEY", "S3_SECRET"))
MIB = 1024 * 1024
EMPTY = hashlib.sha256(b"").hexdigest()


class Auth(S3SigV4Auth):
    """Signs for the kind of body that the request names."""

    def payload(self, request):
        return request.headers["X-Amz-Content-SHA256"]

    def _modify_request_before_signing(self, request):
        kind = request.headers["X-Amz-Content-SHA256"]
        super()._modify_request_before_signing(request)
        del request.headers["X-Amz-Content-SHA256"]
        request.headers["X-Amz-Content-SHA256"] = kind


def sign(method, path, kind, headers):
    request = AWSRequest(method=method, url=URL + path, headers={"X-Amz-Content-SHA256": kind, **headers})
    auth = Auth(Credentials(KEY, SECRET), "s3", "us-east-1")
    auth.add_auth(request)
    return request


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def chain(request):
    """Signs chunk after chunk, each with the signature before it."""
    stamp = request.headers.get("X-Amz-Date") or request.context["timestamp"]
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    state = {"last": request.headers["Authorization"].rsplit("Signature=", 1)[1]}

    def step(kind, *tail):
        text = "\n".join([kind, stamp, scope, state["last"], *tail])
        state["last"] = mac(key, text).hex()
        return state["last"]

    return step


def send(path, kind, body, sizes, trailer=None, spoil=lambda wire: wire):
    headers = {"X-Amz-Decoded-Content-Length": str(len(body)), "Content-Encoding": "aws-chunked"}
    if trailer:
        headers["X-Amz-Trailer"] = trailer[0]
    request = sign("PUT", path, kind, headers)
    step = chain(request) if "HMAC" in kind else None
    wire, at = [], 0
    for size in [*sizes, 0]:
        chunk = body[at:at + size]
        at += size
        head = f"{len(chunk):x}"
        if step:
            head += ";chunk-signature=" + step("AWS4-HMAC-SHA256-PAYLOAD", EMPTY, hashlib.sha256(chunk).hexdigest())
        wire.append(head.encode() + b"\r\n" + chunk + (b"\r\n" if chunk or not trailer else b""))
    assert at == len(body)
    if trailer:
        line = f"{trailer[0]}:{trailer[1]}"
        wire.append(line.encode() + b"\r\n")
        if step:
            signature = step("AWS4-HMAC-SHA256-TRAILER", hashlib.sha256((line + "\n").encode()).hexdigest())
            wire.append(f"x-amz-trailer-signature:{signature}\r\n".encode())
        wire.append(b"\r\n")
    wire = spoil(b"".join(wire))
    connection = http.client.HTTPConnection(urlsplit(URL).netloc)
    sent = {name: value for name, value in request.headers.items()}
    connection.request("PUT", path, body=wire, headers={**sent, "Content-Length": str(len(wire))})
    answer = connection.getresponse()
    return answer.status, answer.read()


def get(path):
    request = sign("GET", path, EMPTY, {})
    connection = http.client.HTTPConnection(urlsplit(URL).netloc)
    connection.request("GET", path, headers=dict(request.headers.items()))
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def crc32(body):
    return "x-amz-checksum-crc32", base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


UNSIGNED, SIGNED = "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"


def split(body, size):
    return [min(size, len(body) - at) for at in range(0, len(body), size)]


def kinds():
    body = os.urandom(3 * MIB + 12345)
    for sizes in (split(body, 65536), split(body, MIB), [len(body)], [1, 2, 1048576, 1048577, len(body) - 2097156]):
        for kind, trailer in ((UNSIGNED, crc32(body)), (SIGNED, None), (SIGNED + "-TRAILER", crc32(body))):
            status, text = send("/data/k", kind, body, sizes, trailer)
            assert status == 200, (kind, len(sizes), text)
            status, found, headers = get("/data/k")
            assert (status, found) == (200, body) and headers["content-encoding"] is None, (kind, headers)
    for kind, trailer in ((UNSIGNED, crc32(b"")), (SIGNED, None)):
        assert send("/data/empty", kind, b"", [], trailer)[0] == 200
        assert get("/data/empty")[:2] == (200, b"")


def spoiled():
    body = os.urandom(200_000)
    sizes = split(body, 65536)
    wrong = ("x-amz-checksum-crc32", "AAAAAA==")
    flip = lambda wire: wire[:100_000] + bytes([wire[100_000] ^ 1]) + wire[100_001:]
    for what, arguments, code in (
        ("a wrong trailer", (UNSIGNED, body, sizes, wrong), b"BadDigest"),
        ("a changed byte, unsigned", (UNSIGNED, body, sizes, crc32(body), flip), b"BadDigest"),
        ("a changed byte, signed", (SIGNED, body, sizes, None, flip), b"SignatureDoesNotMatch"),
        ("an early end", (UNSIGNED, body, sizes, None, lambda wire: wire[:65536 + 7]), b""),
        ("an end between chunks", (UNSIGNED, body, sizes, crc32(body), lambda wire: wire[:2 * (65536 + 9)]), b"IncompleteBody"),
        ("no chunks at all", (UNSIGNED, body, sizes, crc32(body), lambda wire: b"x" * 5000), b""),
        ("a broken frame", (UNSIGNED, body, sizes, crc32(body), lambda wire: wire.replace(b"\r\n10000", b"..10000", 1)), b""),
    ):
        status, text = send("/data/bad", *arguments)
        assert 400 <= status < 500 and code in text, (what, status, text)
        assert get("/data/bad")[0] == 404, what


def huge():
    body = os.urandom(MIB) * 160
    assert send("/data/one", UNSIGNED, body, [len(body)], crc32(body))[0] == 200
    assert get("/data/one")[1] == body
    try:
        status, _ = send("/data/two", SIGNED, body[:20 * MIB], [20 * MIB])
        assert status == 400, "a signed chunk must not be that large"
    except (BrokenPipeError, ConnectionResetError):
        pass  # The store did not wait for the rest.
    assert get("/data/two")[0] == 404


globals()[os.environ["S3_TEST"]]()
print(os.environ["S3_TEST"], "done")
