"""Uploads in parts."""

import base64
import hashlib
import zlib

from recorder import MIB, call, note, quietly, s3, signed

LARGE = bytes(range(256)) * (5 * MIB // 256)
NOBODY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def crc32(body):
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def uploads():
    quietly(s3.create_bucket, Bucket="parts")
    made = call("upload.create", s3.create_multipart_upload, Bucket="parts", Key="big", ContentType="a/b", Metadata={"m": "v"}, Tagging="t=1", CacheControl="no-store")
    upload = made["UploadId"]
    here = {"Bucket": "parts", "Key": "big", "UploadId": upload}
    call("upload.list-none", s3.list_parts, **here)
    parts = {}
    for number, body in ((3, b"the end"), (1, LARGE), (2, LARGE + b"two"), (1, LARGE + b"one")):
        parts[number] = call(f"upload.part-{number}-{len(body)}", s3.upload_part, PartNumber=number, Body=body, **here)["ETag"]
    call("upload.list", s3.list_parts, **here)
    call("upload.list-page", s3.list_parts, MaxParts=2, **here)
    call("upload.list-second-page", s3.list_parts, PartNumberMarker=2, **here)
    call("upload.list-behind", s3.list_parts, PartNumberMarker=9, **here)
    call("upload.list-zero", s3.list_parts, MaxParts=0, **here)
    call("upload.get-before", s3.get_object, Bucket="parts", Key="big")
    for number in (0, -1, 10001):
        call(f"upload.part-number-{number}", s3.upload_part, PartNumber=number, Body=b"x", **here)
    signed("upload.part-number-word", "PUT", f"/parts/big?partNumber=one&uploadId={upload}", body=b"x")
    named = lambda *numbers, **other: {"Parts": [{"PartNumber": n, "ETag": other.get(f"n{n}", parts.get(n, '"0"'))} for n in numbers]}
    complete = lambda name, given, **how: call(f"upload.complete.{name}", s3.complete_multipart_upload, MultipartUpload=given, **{**here, **how})
    complete("unordered", named(2, 1))
    complete("unknown-part", named(1, 4))
    complete("wrong-etag", named(1, n1='"00000000000000000000000000000000"'))
    quietly(s3.upload_part, PartNumber=5, Body=b"last", **here)
    complete("too-small", {"Parts": [{"PartNumber": 3, "ETag": parts[3]}, {"PartNumber": 5, "ETag": f'"{hashlib.md5(b"last").hexdigest()}"'}]})
    complete("none", {"Parts": []})
    complete("other-key", named(1), Key="other")
    complete("missing", named(1), UploadId=NOBODY)
    signed("upload.complete.not-xml", "POST", f"/parts/big?uploadId={upload}", body=b"hello")
    signed("upload.complete.no-body", "POST", f"/parts/big?uploadId={upload}")
    complete("unquoted", {"Parts": [{"PartNumber": n, "ETag": parts[n].strip('"')} for n in (1, 2, 3)]})
    complete("again", named(1, 2, 3))
    call("upload.head", s3.head_object, Bucket="parts", Key="big")
    call("upload.get", s3.get_object, Bucket="parts", Key="big")
    call("upload.tags", s3.get_object_tagging, Bucket="parts", Key="big")
    for number in (1, 2, 3, 4):
        call(f"upload.get-part-{number}", s3.get_object, Bucket="parts", Key="big", PartNumber=number)
        call(f"upload.head-part-{number}", s3.head_object, Bucket="parts", Key="big", PartNumber=number)
    call("upload.range-over-parts", s3.get_object, Bucket="parts", Key="big", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 9}")
    call("upload.list-after", s3.list_parts, **here)
    call("upload.part-after", s3.upload_part, PartNumber=1, Body=b"x", **here)
    call("upload.abort-after", s3.abort_multipart_upload, **here)


def lists_of_uploads():
    quietly(s3.create_bucket, Bucket="uploads")
    call("uploads.none", s3.list_multipart_uploads, Bucket="uploads")
    call("uploads.missing-bucket", s3.list_multipart_uploads, Bucket="not-there")
    ids = {key: quietly(s3.create_multipart_upload, Bucket="uploads", Key=key)["UploadId"] for key in ("one",)}
    call("uploads.one", s3.list_multipart_uploads, Bucket="uploads", Prefix="one")
    quietly(s3.upload_part, Bucket="uploads", Key="one", UploadId=ids["one"], PartNumber=1, Body=b"x")
    call("uploads.not-listed", s3.list_objects_v2, Bucket="uploads")
    call("uploads.abort", s3.abort_multipart_upload, Bucket="uploads", Key="one", UploadId=ids["one"])
    call("uploads.abort-again", s3.abort_multipart_upload, Bucket="uploads", Key="one", UploadId=ids["one"])
    call("uploads.abort-missing", s3.abort_multipart_upload, Bucket="uploads", Key="one", UploadId=NOBODY)
    call("uploads.gone", s3.list_multipart_uploads, Bucket="uploads", Prefix="one")
    call("uploads.list-parts-gone", s3.list_parts, Bucket="uploads", Key="one", UploadId=ids["one"])
    call("uploads.part-gone", s3.upload_part, Bucket="uploads", Key="one", UploadId=ids["one"], PartNumber=1, Body=b"x")
    call("uploads.part-missing", s3.upload_part, Bucket="uploads", Key="one", UploadId=NOBODY, PartNumber=1, Body=b"x")
    call("uploads.create-missing-bucket", s3.create_multipart_upload, Bucket="not-there", Key="k")
    call("uploads.create-bad-name", s3.create_multipart_upload, Bucket="uploads", Key="a/../b")
    last = quietly(s3.create_multipart_upload, Bucket="uploads", Key="one-part")["UploadId"]
    tag = quietly(s3.upload_part, Bucket="uploads", Key="one-part", UploadId=last, PartNumber=9999, Body=b"alone")["ETag"]
    call("uploads.one-part", s3.complete_multipart_upload, Bucket="uploads", Key="one-part", UploadId=last, MultipartUpload={"Parts": [{"PartNumber": 9999, "ETag": tag}]})
    twice = quietly(s3.create_multipart_upload, Bucket="uploads", Key="twice")["UploadId"]
    tag = quietly(s3.upload_part, Bucket="uploads", Key="twice", UploadId=twice, PartNumber=1, Body=LARGE)["ETag"]
    call("uploads.part-named-twice", s3.complete_multipart_upload, Bucket="uploads", Key="twice", UploadId=twice, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}] * 2})
    call("uploads.one-part-get", s3.get_object, Bucket="uploads", Key="one-part")


def whole_checksums():
    quietly(s3.create_bucket, Bucket="part-sums")
    bodies = (LARGE, b"the end")
    for algorithm, kind in (("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("SHA256", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("CRC32", None), ("SHA1", None)):
        name = f"{algorithm}-{kind}"
        how = {"ChecksumType": kind} if kind else {}
        made = call(f"part-sums.{name}.create", s3.create_multipart_upload, Bucket="part-sums", Key=name, ChecksumAlgorithm=algorithm, **how)
        here = {"Bucket": "part-sums", "Key": name, "UploadId": made["UploadId"]}
        parts = []
        for number, body in enumerate(bodies, 1):
            part = call(f"part-sums.{name}.part-{number}", s3.upload_part, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm, **here)
            parts.append({"PartNumber": number, "ETag": part["ETag"], f"Checksum{algorithm}": part[f"Checksum{algorithm}"]})
        call(f"part-sums.{name}.list", s3.list_parts, **here)
        wrong = [parts[0], {**parts[1], f"Checksum{algorithm}": parts[0][f"Checksum{algorithm}"]}]
        call(f"part-sums.{name}.wrong", s3.complete_multipart_upload, MultipartUpload={"Parts": wrong}, **here)
        call(f"part-sums.{name}.complete", s3.complete_multipart_upload, MultipartUpload={"Parts": parts}, **here)
        call(f"part-sums.{name}.head", s3.head_object, Bucket="part-sums", Key=name, ChecksumMode="ENABLED")
    for algorithm, kind in (("SHA256", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE")):
        call(f"part-sums.impossible.{algorithm}", s3.create_multipart_upload, Bucket="part-sums", Key="no", ChecksumAlgorithm=algorithm, ChecksumType=kind)
    made = quietly(s3.create_multipart_upload, Bucket="part-sums", Key="whole", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    here = {"Bucket": "part-sums", "Key": "whole", "UploadId": made["UploadId"]}
    part = quietly(s3.upload_part, PartNumber=1, Body=b"whole", **here)
    named = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]}
    call("part-sums.whole.wrong", s3.complete_multipart_upload, MultipartUpload=named, ChecksumType="FULL_OBJECT", ChecksumCRC32=crc32(b"other"), **here)
    call("part-sums.whole.right", s3.complete_multipart_upload, MultipartUpload=named, ChecksumType="FULL_OBJECT", ChecksumCRC32=crc32(b"whole"), **here)
    made = quietly(s3.create_multipart_upload, Bucket="part-sums", Key="md5")
    here = {"Bucket": "part-sums", "Key": "md5", "UploadId": made["UploadId"]}
    call("part-sums.wrong-md5", s3.upload_part, PartNumber=1, Body=b"body", ContentMD5=base64.b64encode(hashlib.md5(b"other").digest()).decode(), **here)
    call("part-sums.wrong-crc", s3.upload_part, PartNumber=1, Body=b"body", ChecksumCRC32=crc32(b"other"), **here)
    note("part-sums.crc", crc32(b"whole"))


SECTIONS = [uploads, lists_of_uploads, whole_checksums]
