"""Checksums: in headers, in trailers, wrong ones."""

import base64
import hashlib
import io
import zlib

from recorder import call, md5, plain, quietly, s3, signed

BODY = b"what is to be summed up"


def table_of(polynomial, width):
    def step(value):
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        return value

    rows = [step(number) for number in range(256)]

    def compute(body):
        mask = (1 << width) - 1
        value = mask
        for byte in body:
            value = value >> 8 ^ rows[(value ^ byte) & 255]
        return (value ^ mask).to_bytes(width // 8, "big")

    return compute


ALGORITHMS = {
    "CRC32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "CRC32C": table_of(0x82F63B78, 32),
    "CRC64NVME": table_of(0x9A6C9329AC4BC9B5, 64),
    "SHA1": lambda body: hashlib.sha1(body).digest(),
    "SHA256": lambda body: hashlib.sha256(body).digest(),
}


def value(name, body):
    return base64.b64encode(ALGORITHMS[name](body)).decode()


def in_headers():
    quietly(s3.create_bucket, Bucket="sums")
    for name in ALGORITHMS:
        field = f"Checksum{name}"
        for body_name, body in (("empty", b""), ("short", BODY)):
            put = {field: value(name, body)}
            call(f"sum.{name}.{body_name}.put", plain.put_object, Bucket="sums", Key=name, Body=body, **put)
            call(f"sum.{name}.{body_name}.get", plain.get_object, Bucket="sums", Key=name, ChecksumMode="ENABLED")
            call(f"sum.{name}.{body_name}.head", plain.head_object, Bucket="sums", Key=name, ChecksumMode="ENABLED")
            call(f"sum.{name}.{body_name}.unasked", plain.head_object, Bucket="sums", Key=name)
        call(f"sum.{name}.range", plain.get_object, Bucket="sums", Key=name, ChecksumMode="ENABLED", Range="bytes=0-3")
        call(f"sum.{name}.wrong", plain.put_object, Bucket="sums", Key="bad", Body=BODY, **{field: value(name, b"other")})
        call(f"sum.{name}.short", plain.put_object, Bucket="sums", Key="bad", Body=BODY, **{field: "AAA="})
        call(f"sum.{name}.nonsense", plain.put_object, Bucket="sums", Key="bad", Body=BODY, **{field: "!!!"})
    call("sum.two", plain.put_object, Bucket="sums", Key="two", Body=BODY, ChecksumCRC32=value("CRC32", BODY), ChecksumSHA1=value("SHA1", BODY))
    call("sum.md5.right", plain.put_object, Bucket="sums", Key="md5", Body=BODY, ContentMD5=md5(BODY))
    call("sum.md5.wrong", plain.put_object, Bucket="sums", Key="bad", Body=BODY, ContentMD5=md5(b"other"))
    call("sum.md5.short", plain.put_object, Bucket="sums", Key="bad", Body=BODY, ContentMD5="AAAA")
    call("sum.md5.nonsense", plain.put_object, Bucket="sums", Key="bad", Body=BODY, ContentMD5="!!!")
    call("sum.nothing-was-kept", plain.head_object, Bucket="sums", Key="bad")
    signed("sum.sha256.wrong", "PUT", "/sums/bad", body=BODY, kind=hashlib.sha256(b"other").hexdigest())
    signed("sum.sha256.unsigned", "PUT", "/sums/unsigned", body=BODY, kind="UNSIGNED-PAYLOAD")
    signed("sum.sha256.nonsense", "PUT", "/sums/bad", body=BODY, kind="nonsense")
    signed("sum.algorithm-without-value", "PUT", "/sums/announced", {"x-amz-sdk-checksum-algorithm": "CRC32"}, BODY)


def in_trailers():
    for name in ("CRC32", "SHA1", "SHA256"):
        call(f"trailer.{name}", s3.put_object, Bucket="sums", Key=f"trailer-{name}", Body=io.BytesIO(BODY * 1000), ChecksumAlgorithm=name)
        call(f"trailer.{name}.get", s3.get_object, Bucket="sums", Key=f"trailer-{name}", ChecksumMode="ENABLED")
    chunked("right", BODY, value("CRC32", BODY))
    chunked("wrong", BODY, value("CRC32", b"other"))
    chunked("crc32c", BODY, value("CRC32C", BODY), "crc32c")
    chunked("crc64nvme", BODY, value("CRC64NVME", BODY), "crc64nvme")
    chunked("other-length", BODY, value("CRC32", BODY), said=len(BODY) + 1)
    chunked("other-name", BODY, value("CRC32", BODY), "crc32", announced="x-amz-checksum-sha256")
    call("trailer.left", s3.list_objects_v2, Bucket="sums", Prefix="chunked-")


def chunked(label, body, trailer, name="crc32", said=None, announced=None):
    wire = f"{len(body):x}\r\n".encode() + body + f"\r\n0\r\nx-amz-checksum-{name}:{trailer}\r\n\r\n".encode()
    headers = {
        "Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": str(len(body) if said is None else said),
        "X-Amz-Trailer": announced or f"x-amz-checksum-{name}",
    }
    signed(f"trailer.chunked.{label}", "PUT", f"/sums/chunked-{label}", headers, wire, kind="STREAMING-UNSIGNED-PAYLOAD-TRAILER")


SECTIONS = [in_headers, in_trailers]
