"""Operations of S3 through boto3. Which one to run comes in S3_TEST."""

import base64
import hashlib
import io
import os
import urllib.error
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

MIB = 1024 * 1024


def mk_client(**options):
    settings = {"signature_version": "s3v4", "s3": {"addressing_style": "path"}, "retries": {"max_attempts": 1}}
    settings.update(options)
    return boto3.client(
        "s3",
        endpoint_url=os.environ["S3_URL"],
        aws_access_key_id=os.environ["S3_KEY"],
        aws_secret_access_key=os.environ["S3_SECRET"],
        region_name="us-east-1",
        config=Config(**settings),
    )


s3 = mk_client()


def refused(code, status, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        found = error.response
        assert found["Error"]["Code"] == code, (found["Error"], code)
        assert found["ResponseMetadata"]["HTTPStatusCode"] == status, found
        return found
    raise AssertionError(f"{call.__name__} was not refused with {code}")


def bodies():
    yield b""
    yield b"x"
    yield os.urandom(1024)
    yield os.urandom(64 * 1024)
    yield os.urandom(64 * 1024 + 1)
    yield os.urandom(3 * MIB + 17)


def objects_and_metadata():
    s3.create_bucket(Bucket="first")
    for number, body in enumerate(bodies()):
        key = f"folder/object-{number}"
        put = s3.put_object(
            Bucket="first", Key=key, Body=body, ContentType="text/x-test", CacheControl="no-cache",
            ContentDisposition="inline", ContentLanguage="en", ContentEncoding="gzip",
            Metadata={"one": "1", "camelCase": "Two words"},
        )
        assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"', put
        got = s3.get_object(Bucket="first", Key=key)
        assert got["Body"].read() == body
        head = s3.head_object(Bucket="first", Key=key)
        for answer in (got, head):
            assert answer["ETag"] == put["ETag"]
            assert answer["ContentLength"] == len(body)
            assert answer["ContentType"] == "text/x-test", answer
            assert answer["CacheControl"] == "no-cache"
            assert answer["ContentDisposition"] == "inline"
            assert answer["ContentEncoding"] == "gzip"
            assert answer["ContentLanguage"] == "en"
            assert answer["AcceptRanges"] == "bytes"
            assert answer["Metadata"] == {"one": "1", "camelcase": "Two words"}, answer["Metadata"]
    s3.put_object(Bucket="first", Key="folder/object-1", Body=b"new")
    assert s3.get_object(Bucket="first", Key="folder/object-1")["Body"].read() == b"new"
    assert "one" not in s3.head_object(Bucket="first", Key="folder/object-1")["Metadata"]
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["data", "first"]
    s3.head_bucket(Bucket="first")
    assert s3.get_bucket_location(Bucket="first")["LocationConstraint"] is None


def ranges_and_conditions():
    s3.create_bucket(Bucket="ranges")
    for body in (os.urandom(1000), os.urandom(2 * MIB)):
        put = s3.put_object(Bucket="ranges", Key="k", Body=body)
        for header, part in (
            ("bytes=0-0", body[:1]), ("bytes=10-19", body[10:20]), ("bytes=500-", body[500:]),
            ("bytes=-7", body[-7:]), (f"bytes=5-{len(body) * 2}", body[5:]),
        ):
            got = s3.get_object(Bucket="ranges", Key="k", Range=header)
            assert got["Body"].read() == part, header
            assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
            assert got["ContentRange"].endswith(f"/{len(body)}"), got["ContentRange"]
        refused("InvalidRange", 416, s3.get_object, Bucket="ranges", Key="k", Range=f"bytes={len(body)}-")
        tag = put["ETag"]
        s3.get_object(Bucket="ranges", Key="k", IfMatch=tag)["Body"].read()
        refused("PreconditionFailed", 412, s3.get_object, Bucket="ranges", Key="k", IfMatch='"other"')
        refused("304", 304, s3.head_object, Bucket="ranges", Key="k", IfNoneMatch=tag)
        refused("304", 304, s3.get_object, Bucket="ranges", Key="k", IfNoneMatch=tag)
        when = s3.head_object(Bucket="ranges", Key="k")["LastModified"]
        refused("304", 304, s3.get_object, Bucket="ranges", Key="k", IfModifiedSince=when)
        s3.get_object(Bucket="ranges", Key="k", IfUnmodifiedSince=when)["Body"].read()
    refused("PreconditionFailed", 412, s3.put_object, Bucket="ranges", Key="k", Body=b"1", IfNoneMatch="*")
    s3.put_object(Bucket="ranges", Key="new", Body=b"1", IfNoneMatch="*")
    tag = s3.head_object(Bucket="ranges", Key="new")["ETag"]
    refused("PreconditionFailed", 412, s3.put_object, Bucket="ranges", Key="new", Body=b"2", IfMatch='"other"')
    s3.put_object(Bucket="ranges", Key="new", Body=b"2", IfMatch=tag)
    refused("NoSuchKey", 404, s3.put_object, Bucket="ranges", Key="none", Body=b"2", IfMatch=tag)
    assert s3.get_object(Bucket="ranges", Key="new")["Body"].read() == b"2"


def lists():
    s3.create_bucket(Bucket="lists")
    keys = sorted([f"a/{n:03}" for n in range(25)] + [f"b/{n}/x" for n in range(7)] + ["a", "a b", "a+b", "c%20", "z/", "ä/ö"])
    for key in keys:
        s3.put_object(Bucket="lists", Key=key, Body=b".")
    in_order = sorted(keys, key=lambda key: key.encode())
    for operation in ("list_objects_v2", "list_objects"):
        for size in (1, 4, 1000):
            pages = s3.get_paginator(operation).paginate(Bucket="lists", PaginationConfig={"PageSize": size})
            assert [o["Key"] for page in pages for o in page.get("Contents", [])] == in_order, (operation, size)
            folded = []
            for page in s3.get_paginator(operation).paginate(Bucket="lists", Delimiter="/", PaginationConfig={"PageSize": size}):
                folded += [o["Key"] for o in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]
            assert sorted(folded) == sorted(["a", "a b", "a+b", "c%20", "a/", "b/", "z/", "ä/"]), (operation, size, folded)
            pages = s3.get_paginator(operation).paginate(Bucket="lists", Prefix="b/", Delimiter="/", PaginationConfig={"PageSize": size})
            assert [p["Prefix"] for page in pages for p in page.get("CommonPrefixes", [])] == [f"b/{n}/" for n in range(7)]
    page = s3.list_objects_v2(Bucket="lists", StartAfter="a/020", Prefix="a/")
    assert [o["Key"] for o in page["Contents"]] == [f"a/{n:03}" for n in range(21, 25)]
    assert page["KeyCount"] == 4 and not page["IsTruncated"]
    page = s3.list_objects_v2(Bucket="lists", MaxKeys=3, FetchOwner=True)
    assert page["IsTruncated"] and page["MaxKeys"] == 3 and page["Contents"][0]["Owner"]["ID"], page
    one = page["Contents"][0]
    assert one["Size"] == 1 and one["StorageClass"] == "STANDARD" and one["ETag"].startswith('"')
    assert s3.list_objects_v2(Bucket="lists", MaxKeys=0)["KeyCount"] == 0
    assert s3.list_objects_v2(Bucket="lists", Prefix="nothing")["KeyCount"] == 0


def multipart_uploads():
    s3.create_bucket(Bucket="parts")
    body = os.urandom(17 * MIB + 5)
    s3.upload_fileobj(io.BytesIO(body), "parts", "big", Config=TransferConfig(multipart_threshold=6 * MIB, multipart_chunksize=6 * MIB, max_concurrency=3))
    chunks = [body[at:at + 6 * MIB] for at in range(0, len(body), 6 * MIB)]
    tag = hashlib.md5(b"".join(hashlib.md5(chunk).digest() for chunk in chunks)).hexdigest() + f"-{len(chunks)}"
    got = s3.get_object(Bucket="parts", Key="big")
    assert got["ETag"] == f'"{tag}"' and got["Body"].read() == body
    assert s3.get_object(Bucket="parts", Key="big", Range="bytes=6291400-6291500")["Body"].read() == body[6291400:6291501]
    second = s3.get_object(Bucket="parts", Key="big", PartNumber=2)
    assert second["PartsCount"] == 3 and second["Body"].read() == chunks[1]

    for algorithm, kind in (("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("CRC32", "FULL_OBJECT")):
        made = s3.create_multipart_upload(Bucket="parts", Key=algorithm, ChecksumAlgorithm=algorithm, ChecksumType=kind, ContentType="a/b", Metadata={"m": "v"})
        upload = made["UploadId"]
        parts = []
        for number, chunk in ((1, body[:5 * MIB]), (7, b"the end")):
            part = s3.upload_part(Bucket="parts", Key=algorithm, UploadId=upload, PartNumber=number, Body=chunk, ChecksumAlgorithm=algorithm)
            parts.append({"PartNumber": number, "ETag": part["ETag"], f"Checksum{algorithm}": part[f"Checksum{algorithm}"]})
        assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket="parts")["Uploads"]] == [upload]
        listed = s3.list_parts(Bucket="parts", Key=algorithm, UploadId=upload)
        assert [p["PartNumber"] for p in listed["Parts"]] == [1, 7] and listed["Parts"][1]["Size"] == 7
        done = s3.complete_multipart_upload(Bucket="parts", Key=algorithm, UploadId=upload, MultipartUpload={"Parts": parts})
        again = s3.complete_multipart_upload(Bucket="parts", Key=algorithm, UploadId=upload, MultipartUpload={"Parts": parts})
        assert again["ETag"] == done["ETag"], "completing twice is the same as once"
        head = s3.head_object(Bucket="parts", Key=algorithm, ChecksumMode="ENABLED")
        assert head["ContentType"] == "a/b" and head["Metadata"] == {"m": "v"} and head["ChecksumType"] == kind, head
        got = s3.get_object(Bucket="parts", Key=algorithm, ChecksumMode="ENABLED")
        assert got["Body"].read() == body[:5 * MIB] + b"the end"
        if algorithm == "SHA256":
            sums = b"".join(hashlib.sha256(chunk).digest() for chunk in (body[:5 * MIB], b"the end"))
            assert head["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(sums).digest()).decode() + "-2"
        elif kind == "FULL_OBJECT":
            whole = s3.put_object(Bucket="parts", Key="whole", Body=body[:5 * MIB] + b"the end", ChecksumAlgorithm=algorithm)
            assert whole[f"Checksum{algorithm}"] == head[f"Checksum{algorithm}"]

    upload = s3.create_multipart_upload(Bucket="parts", Key="bad")["UploadId"]
    small = [s3.upload_part(Bucket="parts", Key="bad", UploadId=upload, PartNumber=n, Body=b"small")["ETag"] for n in (1, 2)]
    complete = lambda parts: dict(Bucket="parts", Key="bad", UploadId=upload, MultipartUpload={"Parts": parts})
    one, two = ({"PartNumber": n, "ETag": small[n - 1]} for n in (1, 2))
    refused("EntityTooSmall", 400, s3.complete_multipart_upload, **complete([one, two]))
    refused("InvalidPartOrder", 400, s3.complete_multipart_upload, **complete([two, one]))
    refused("InvalidPart", 400, s3.complete_multipart_upload, **complete([{"PartNumber": 1, "ETag": '"' + "0" * 32 + '"'}]))
    refused("InvalidPart", 400, s3.complete_multipart_upload, **complete([one, {"PartNumber": 3, "ETag": small[0]}]))
    s3.upload_part(Bucket="parts", Key="bad", UploadId=upload, PartNumber=1, Body=b"instead")
    s3.abort_multipart_upload(Bucket="parts", Key="bad", UploadId=upload)
    refused("NoSuchUpload", 404, s3.upload_part, Bucket="parts", Key="bad", UploadId=upload, PartNumber=1, Body=b"late")
    refused("NoSuchUpload", 404, s3.abort_multipart_upload, Bucket="parts", Key="bad", UploadId=upload)
    refused("404", 404, s3.head_object, Bucket="parts", Key="bad")


def copies():
    s3.create_bucket(Bucket="from")
    s3.create_bucket(Bucket="to-here")
    for body in (b"small", os.urandom(MIB)):
        s3.put_object(Bucket="from", Key="a b/ä+%", Body=body, Metadata={"m": "1"}, ContentType="a/b", Tagging="t=1")
        source = {"Bucket": "from", "Key": "a b/ä+%"}
        s3.copy_object(Bucket="to-here", Key="kept", CopySource=source)
        s3.copy_object(Bucket="to-here", Key="new", CopySource=source, MetadataDirective="REPLACE", Metadata={"n": "2"}, ContentType="c/d", TaggingDirective="REPLACE", Tagging="u=2")
        s3.delete_object(Bucket="from", Key="a b/ä+%")
        kept, new = (s3.get_object(Bucket="to-here", Key=key) for key in ("kept", "new"))
        assert kept["Body"].read() == body and kept["Metadata"] == {"m": "1"} and kept["ContentType"] == "a/b"
        assert new["Body"].read() == body and new["Metadata"] == {"n": "2"} and new["ContentType"] == "c/d"
        assert s3.get_object_tagging(Bucket="to-here", Key="kept")["TagSet"] == [{"Key": "t", "Value": "1"}]
        assert s3.get_object_tagging(Bucket="to-here", Key="new")["TagSet"] == [{"Key": "u", "Value": "2"}]
    own = {"Bucket": "to-here", "Key": "new"}
    refused("InvalidRequest", 400, s3.copy_object, Bucket="to-here", Key="new", CopySource=own)
    s3.copy_object(Bucket="to-here", Key="new", CopySource=own, MetadataDirective="REPLACE", Metadata={"own": "3"})
    got = s3.get_object(Bucket="to-here", Key="new")
    assert got["Metadata"] == {"own": "3"} and got["Body"].read() == body
    refused("NoSuchKey", 404, s3.copy_object, Bucket="to-here", Key="x", CopySource={"Bucket": "from", "Key": "gone"})
    refused("PreconditionFailed", 412, s3.copy_object, Bucket="to-here", Key="x", CopySource=own, CopySourceIfMatch='"other"')
    upload = s3.create_multipart_upload(Bucket="to-here", Key="joined")["UploadId"]
    s3.put_object(Bucket="from", Key="large", Body=body * 6)
    first = s3.upload_part_copy(Bucket="to-here", Key="joined", UploadId=upload, PartNumber=1, CopySource={"Bucket": "from", "Key": "large"})
    last = s3.upload_part_copy(Bucket="to-here", Key="joined", UploadId=upload, PartNumber=2, CopySource={"Bucket": "from", "Key": "large"}, CopySourceRange="bytes=10-19")
    parts = [{"PartNumber": n, "ETag": part["CopyPartResult"]["ETag"]} for n, part in ((1, first), (2, last))]
    s3.complete_multipart_upload(Bucket="to-here", Key="joined", UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket="to-here", Key="joined")["Body"].read() == body * 6 + body[10:20]


def deletes_and_tags():
    s3.create_bucket(Bucket="gone")
    keys = [f"k {n}" for n in range(30)]
    for key in keys:
        s3.put_object(Bucket="gone", Key=key, Body=b".")
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket="gone")
    answer = s3.delete_objects(Bucket="gone", Delete={"Objects": [{"Key": key} for key in keys[:10] + ["never there", "a/../b"]]})
    assert len(answer["Deleted"]) == 11, answer
    assert [e["Code"] for e in answer["Errors"]] == ["XMinioInvalidObjectName"], answer
    answer = s3.delete_objects(Bucket="gone", Delete={"Objects": [{"Key": key} for key in keys[10:]], "Quiet": True})
    assert "Deleted" not in answer and "Errors" not in answer, answer
    s3.delete_object(Bucket="gone", Key="never there")
    s3.put_object(Bucket="gone", Key="t", Body=b"1", Tagging="a=1&b+c=%C3%A4")
    tags = lambda: {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket="gone", Key="t")["TagSet"]}
    assert tags() == {"a": "1", "b c": "ä"}
    assert s3.get_object(Bucket="gone", Key="t")["TagCount"] == 2
    s3.put_object_tagging(Bucket="gone", Key="t", Tagging={"TagSet": [{"Key": "x", "Value": "y"}]})
    assert tags() == {"x": "y"}
    refused("BadRequest", 400, s3.put_object_tagging, Bucket="gone", Key="t", Tagging={"TagSet": [{"Key": str(n), "Value": ""} for n in range(11)]})
    s3.delete_object_tagging(Bucket="gone", Key="t")
    assert tags() == {}
    s3.delete_object(Bucket="gone", Key="t")
    s3.delete_bucket(Bucket="gone")
    refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket="gone")
    s3.create_bucket(Bucket="gone")
    assert s3.list_objects_v2(Bucket="gone")["KeyCount"] == 0


def strange_names():
    s3.create_bucket(Bucket="names")
    keys = ["a b", "a+b", "a%20b", "a%2Fb", "ä/ö/ü", "日本/語", "emoji 🦀", "a//b", "/lead", "trail/", "q?x=1&y#z", "'\"<>&;=,:@$!*()[]{}|\\^`~", "..a/b..", "k" * 1024, "new\nline", "tab\t"]
    for key in keys:
        s3.put_object(Bucket="names", Key=key, Body=key.encode(), Metadata={"for": "it"})
    for key in keys:
        assert s3.get_object(Bucket="names", Key=key)["Body"].read() == key.encode(), key
    listed = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket="names", PaginationConfig={"PageSize": 3}) for o in page["Contents"]]
    assert listed == sorted(keys, key=lambda key: key.encode()), listed
    for key in ("a/../b", "..", "a/./b", "."):
        refused("XMinioInvalidObjectName", 400, s3.put_object, Bucket="names", Key=key, Body=b"")
    refused("KeyTooLongError", 400, s3.put_object, Bucket="names", Key="k" * 1025, Body=b"")
    for bucket in ("Upper", "under_score", "a..b", "-dash", "192.168.0.1", "ab"):
        refused("InvalidBucketName", 400, s3.create_bucket, Bucket=bucket)
    for key in keys:
        s3.delete_object(Bucket="names", Key=key)
    assert s3.list_objects_v2(Bucket="names")["KeyCount"] == 0


def refusals():
    s3.create_bucket(Bucket="mine")
    refused("BucketAlreadyOwnedByYou", 409, s3.create_bucket, Bucket="mine")
    refused("NoSuchBucket", 404, s3.put_object, Bucket="none-such", Key="k", Body=b"")
    refused("404", 404, s3.head_bucket, Bucket="none-such")
    refused("NoSuchKey", 404, s3.get_object, Bucket="mine", Key="k")
    refused("404", 404, s3.head_object, Bucket="mine", Key="k")
    refused("AccessDenied", 403, s3.put_object, Bucket="oscar-staging", Key="k", Body=b"")
    refused("AccessDenied", 403, s3.list_objects_v2, Bucket="oscar-staging")
    assert "oscar-staging" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    refused("NoSuchVersion", 404, s3.get_object, Bucket="mine", Key="k", VersionId="abc")
    os.environ["S3_SECRET"] = "wrong"
    refused("SignatureDoesNotMatch", 403, mk_client().put_object, Bucket="mine", Key="k", Body=b"")
    os.environ["S3_KEY"] = "nobody"
    refused("InvalidAccessKeyId", 403, mk_client().list_buckets)
    try:
        urllib.request.urlopen(os.environ["S3_URL"] + "/mine/k")
        raise AssertionError("an anonymous request was answered")
    except urllib.error.HTTPError as error:
        assert error.code == 403 and b"AccessDenied" in error.read()


def checksums_and_streams():
    s3.create_bucket(Bucket="sums")
    for body in (b"", b"short", os.urandom(5 * MIB + 3)):
        for algorithm in ("CRC32", "SHA1", "SHA256"):
            put = s3.put_object(Bucket="sums", Key="k", Body=io.BytesIO(body), ChecksumAlgorithm=algorithm)
            got = s3.get_object(Bucket="sums", Key="k", ChecksumMode="ENABLED")
            assert got["Body"].read() == body
            assert got[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"] and got["ChecksumType"] == "FULL_OBJECT"
            assert got.get("ContentEncoding") is None, got
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        s3.put_object(Bucket="sums", Key="k", Body=body, ContentMD5=md5)
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    refused("BadDigest", 400, s3.put_object, Bucket="sums", Key="bad", Body=b"body", ContentMD5=wrong)
    refused("InvalidDigest", 400, s3.put_object, Bucket="sums", Key="bad", Body=b"body", ContentMD5="xx")
    refused("BadDigest", 400, s3.put_object, Bucket="sums", Key="bad", Body=b"body", ChecksumCRC32="AAAAAA==")
    refused("404", 404, s3.head_object, Bucket="sums", Key="bad")
    signed = mk_client(s3={"addressing_style": "path", "payload_signing_enabled": True})
    for body in (b"", b"short", os.urandom(2 * MIB)):
        signed.put_object(Bucket="sums", Key="signed", Body=body)
        assert s3.get_object(Bucket="sums", Key="signed")["Body"].read() == body


def presigned_addresses():
    s3.create_bucket(Bucket="signed")
    body = os.urandom(200_000)

    def fetch(method, url, data=None, **headers):
        request = urllib.request.Request(url, method=method, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    put = s3.generate_presigned_url("put_object", Params={"Bucket": "signed", "Key": "a b/ä"}, ExpiresIn=60)
    assert fetch("PUT", put, body)[0] == 200
    get = s3.generate_presigned_url("get_object", Params={"Bucket": "signed", "Key": "a b/ä", "ResponseContentType": "x/y"}, ExpiresIn=60)
    status, found, headers = fetch("GET", get)
    assert (status, found, headers["content-type"]) == (200, body, "x/y")
    assert fetch("PUT", get, b"no")[0] == 403, "an address is for one thing"
    assert fetch("GET", get.replace("%20b", "%20c"))[0] == 403
    assert fetch("GET", get, **{"x-amz-copy-source": "signed/other"})[0] == 403, "what was not signed is not heard"
    expired = s3.generate_presigned_url("get_object", Params={"Bucket": "signed", "Key": "a b/ä"}, ExpiresIn=-5)
    assert fetch("GET", expired)[0] in (400, 403)


def what_is_left_out():
    s3.create_bucket(Bucket="plain")
    s3.put_object(Bucket="plain", Key="k", Body=b"1")
    out = lambda call, **arguments: refused("NotImplemented", 501, call, Bucket="plain", **arguments)
    out(s3.put_bucket_versioning, VersioningConfiguration={"Status": "Enabled"})
    out(s3.get_bucket_versioning)
    out(s3.list_object_versions)
    out(s3.get_bucket_lifecycle_configuration)
    out(s3.put_bucket_policy, Policy="{}")
    out(s3.get_bucket_replication)
    out(s3.get_object_lock_configuration)
    out(s3.put_bucket_notification_configuration, NotificationConfiguration={})
    out(s3.put_object_acl, Key="k", ACL="public-read")
    out(s3.put_object, Key="k", Body=b"2", ACL="public-read")
    out(s3.put_object, Key="k", Body=b"2", ServerSideEncryption="AES256")
    out(s3.put_object, Key="k", Body=b"2", ObjectLockLegalHoldStatus="ON")
    assert s3.get_object(Bucket="plain", Key="k")["Body"].read() == b"1"


name = os.environ["S3_TEST"]
globals()[name]()
print(name, "done")
