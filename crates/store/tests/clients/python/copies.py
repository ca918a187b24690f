"""Copies of objects, and copies into parts."""

import datetime

from parts import LARGE
from recorder import MIB, call, plain, quietly, s3, signed


def copies():
    quietly(s3.create_bucket, Bucket="from")
    quietly(s3.create_bucket, Bucket="onto")
    about = {"ContentType": "a/b", "CacheControl": "no-cache", "Metadata": {"m": "v"}, "Tagging": "t=1"}
    tag = quietly(plain.put_object, Bucket="from", Key="k", Body=b"body", **about)["ETag"]
    when = quietly(s3.head_object, Bucket="from", Key="k")["LastModified"]
    before, after = when - datetime.timedelta(hours=1), when + datetime.timedelta(hours=1)
    source = {"Bucket": "from", "Key": "k"}

    def copy(name, show=True, bucket="onto", key="copy", **how):
        done = call(f"copy.{name}", s3.copy_object, **{"Bucket": bucket, "Key": key, "CopySource": source, **how})
        if done and show:
            call(f"copy.{name}.head", s3.head_object, Bucket=bucket, Key=key)
            call(f"copy.{name}.tags", s3.get_object_tagging, Bucket=bucket, Key=key)

    copy("plain")
    copy("kept", MetadataDirective="COPY", Metadata={"other": "1"}, ContentType="c/d")
    copy("replaced", MetadataDirective="REPLACE", Metadata={"other": "1"}, ContentType="c/d")
    copy("tags-replaced", TaggingDirective="REPLACE", Tagging="u=2")
    copy("tags-kept", TaggingDirective="COPY", Tagging="u=2")
    copy("bad-directive", MetadataDirective="CHANGE")
    copy("itself", bucket="from", key="k")
    copy("itself-replaced", bucket="from", key="k", MetadataDirective="REPLACE", Metadata={"n": "w"}, ContentType="x/y")
    copy("itself-tags", bucket="from", key="k", TaggingDirective="REPLACE", Tagging="u=2")
    tag = quietly(s3.head_object, Bucket="from", Key="k")["ETag"]
    when = quietly(s3.head_object, Bucket="from", Key="k")["LastModified"]
    other = '"00000000000000000000000000000000"'
    for name, how in {
        "match": {"CopySourceIfMatch": tag}, "match-other": {"CopySourceIfMatch": other}, "none-match": {"CopySourceIfNoneMatch": tag},
        "none-match-other": {"CopySourceIfNoneMatch": other}, "modified-before": {"CopySourceIfModifiedSince": before}, "modified-same": {"CopySourceIfModifiedSince": when},
        "unmodified-before": {"CopySourceIfUnmodifiedSince": before}, "unmodified-same": {"CopySourceIfUnmodifiedSince": when},
        "match-and-unmodified-before": {"CopySourceIfMatch": tag, "CopySourceIfUnmodifiedSince": before},
        "none-match-other-and-modified": {"CopySourceIfNoneMatch": other, "CopySourceIfModifiedSince": before},
    }.items():
        copy(f"condition.{name}", show=False, **how)
    call("copy.missing-source", s3.copy_object, Bucket="onto", Key="no", CopySource={"Bucket": "from", "Key": "none"})
    call("copy.missing-source-bucket", s3.copy_object, Bucket="onto", Key="no", CopySource={"Bucket": "not-there", "Key": "k"})
    call("copy.missing-bucket", s3.copy_object, Bucket="not-there", Key="no", CopySource=source)
    call("copy.null-version", s3.copy_object, Bucket="onto", Key="null", CopySource={**source, "VersionId": "null"})
    call("copy.bad-name", s3.copy_object, Bucket="onto", Key="a/../b", CopySource=source)
    call("copy.bad-source-name", s3.copy_object, Bucket="onto", Key="no", CopySource={"Bucket": "from", "Key": "a/../b"})
    quietly(plain.put_object, Bucket="from", Key="odd ä+%/名", Body=b"odd")
    call("copy.odd-name", s3.copy_object, Bucket="onto", Key="odd ä+%/名", CopySource={"Bucket": "from", "Key": "odd ä+%/名"})
    call("copy.odd-name-get", s3.get_object, Bucket="onto", Key="odd ä+%/名")
    for name, value in (("no-slash", "from"), ("lead", "/from/k"), ("empty", "/"), ("bucket-only", "from/"), ("not-utf8", "from/%ff")):
        signed(f"copy.source.{name}", "PUT", f"/onto/source-{name}", {"x-amz-copy-source": value})
    quietly(s3.put_object, Bucket="from", Key="summed", Body=b"body")
    call("copy.summed", s3.copy_object, Bucket="onto", Key="summed", CopySource={"Bucket": "from", "Key": "summed"})
    call("copy.summed-head", s3.head_object, Bucket="onto", Key="summed", ChecksumMode="ENABLED")
    call("copy.checksum", s3.copy_object, Bucket="onto", Key="sum", CopySource=source, ChecksumAlgorithm="SHA256")
    call("copy.checksum-head", s3.head_object, Bucket="onto", Key="sum", ChecksumMode="ENABLED")
    call("copy.if-none-match", s3.copy_object, Bucket="onto", Key="sum", CopySource=source, IfNoneMatch="*")


def into_parts():
    quietly(s3.put_object, Bucket="from", Key="large", Body=LARGE + b"and more")
    upload = quietly(s3.create_multipart_upload, Bucket="onto", Key="joined")["UploadId"]
    here = {"Bucket": "onto", "Key": "joined", "UploadId": upload}
    source = {"Bucket": "from", "Key": "large"}
    tag = quietly(s3.head_object, **source)["ETag"]
    part = lambda name, number=1, **how: call(f"part-copy.{name}", s3.upload_part_copy, PartNumber=number, **{**here, "CopySource": source, **how})
    first = part("whole")
    last = part("range", 2, CopySourceRange="bytes=10-19")
    for name, range_ in (("open", "bytes=5-"), ("suffix", "bytes=-5"), ("behind", "bytes=10000000-10000001"), ("over", f"bytes=0-{6 * MIB}"), ("backwards", "bytes=9-3"), ("nonsense", "bytes=a-b"), ("no-unit", "1-2")):
        part(f"range-{name}", 3, CopySourceRange=range_)
    part("match", 3, CopySourceIfMatch=tag)
    part("match-other", 3, CopySourceIfMatch='"0"')
    part("none-match", 3, CopySourceIfNoneMatch=tag)
    part("missing-source", 3, CopySource={"Bucket": "from", "Key": "none"})
    part("missing-bucket", 3, CopySource={"Bucket": "not-there", "Key": "none"})
    part("missing-upload", 3, UploadId="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
    part("number", 10001)
    named = [{"PartNumber": number, "ETag": done["CopyPartResult"]["ETag"]} for number, done in ((1, first), (2, last))]
    call("part-copy.complete", s3.complete_multipart_upload, MultipartUpload={"Parts": named}, **here)
    call("part-copy.get", s3.get_object, Bucket="onto", Key="joined")


SECTIONS = [copies, into_parts]
