"""Buckets, objects, ranges, conditions, tags, deletes."""

import datetime

from recorder import MIB, call, md5, note, plain, quietly, s3, signed

BODY = bytes(range(256)) * 4


def buckets():
    call("bucket.create", s3.create_bucket, Bucket="made")
    call("bucket.create-twice", s3.create_bucket, Bucket="made")
    call("bucket.head", s3.head_bucket, Bucket="made")
    call("bucket.head-missing", s3.head_bucket, Bucket="not-there")
    call("bucket.location", s3.get_bucket_location, Bucket="made")
    call("bucket.location-missing", s3.get_bucket_location, Bucket="not-there")
    call("bucket.create-elsewhere", s3.create_bucket, Bucket="made-elsewhere", CreateBucketConfiguration={"LocationConstraint": "us-east-1"})
    call("bucket.list", s3.list_buckets)
    quietly(s3.put_object, Bucket="made", Key="k", Body=b"1")
    call("bucket.delete-full", s3.delete_bucket, Bucket="made")
    quietly(s3.delete_object, Bucket="made", Key="k")
    upload = quietly(s3.create_multipart_upload, Bucket="made", Key="half")["UploadId"]
    call("bucket.delete-with-upload", s3.delete_bucket, Bucket="made")
    call("bucket.upload-after-delete", s3.upload_part, Bucket="made", Key="half", UploadId=upload, PartNumber=1, Body=b"1")
    call("bucket.delete-twice", s3.delete_bucket, Bucket="made")
    call("bucket.delete-missing", s3.delete_bucket, Bucket="not-there")
    for name in ("ab", "Upper", "under_score", "-dash", "dash-", "two..dots", ".dot", "dot.", "dot.-dash", "192.168.5.4", "b" * 63, "b" * 64, "a.b-c.d", "xn--made", "made-s3alias"):
        call(f"bucket.name.{name}", s3.create_bucket, Bucket=name)
    signed("bucket.name.space", "PUT", "/with%20space")
    signed("bucket.get-bad-name", "GET", "/Not_A_Name?list-type=2")
    call("bucket.put-into-missing", s3.put_object, Bucket="not-there", Key="k", Body=b"1")
    call("bucket.list-missing", s3.list_objects_v2, Bucket="not-there")
    call("bucket.get-from-missing", s3.get_object, Bucket="not-there", Key="k")
    call("bucket.head-from-missing", s3.head_object, Bucket="not-there", Key="k")
    call("bucket.delete-from-missing", s3.delete_object, Bucket="not-there", Key="k")


def tag_set(label, method, **arguments):
    """Tags have no order."""
    tags = {tag["Key"]: tag["Value"] for tag in quietly(method, **arguments)["TagSet"]}
    note(label, tags)


def bucket_tags():
    quietly(s3.create_bucket, Bucket="tagged")
    call("bucket-tags.none", s3.get_bucket_tagging, Bucket="tagged")
    call("bucket-tags.missing-bucket", s3.get_bucket_tagging, Bucket="not-there")
    call("bucket-tags.put", s3.put_bucket_tagging, Bucket="tagged", Tagging={"TagSet": [{"Key": "b", "Value": "2 +x"}, {"Key": "a", "Value": ""}]})
    tag_set("bucket-tags.get", s3.get_bucket_tagging, Bucket="tagged")
    call("bucket-tags.letters", s3.put_bucket_tagging, Bucket="tagged", Tagging={"TagSet": [{"Key": "ä", "Value": "ö"}]})
    call("bucket-tags.doubled", s3.put_bucket_tagging, Bucket="tagged", Tagging={"TagSet": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]})
    call("bucket-tags.long-name", s3.put_bucket_tagging, Bucket="tagged", Tagging={"TagSet": [{"Key": "n" * 129, "Value": ""}]})
    call("bucket-tags.fifty", s3.put_bucket_tagging, Bucket="tagged", Tagging={"TagSet": [{"Key": f"k{n:02}", "Value": "v"} for n in range(50)]})
    call("bucket-tags.too-many", s3.put_bucket_tagging, Bucket="tagged", Tagging={"TagSet": [{"Key": f"k{n:02}", "Value": "v"} for n in range(51)]})
    tag_set("bucket-tags.after", s3.get_bucket_tagging, Bucket="tagged")
    call("bucket-tags.delete", s3.delete_bucket_tagging, Bucket="tagged")
    call("bucket-tags.gone", s3.get_bucket_tagging, Bucket="tagged")
    call("bucket-tags.delete-again", s3.delete_bucket_tagging, Bucket="tagged")


def round_trips():
    quietly(s3.create_bucket, Bucket="objects")
    for name, body in (("empty", b""), ("one", b"x"), ("inline", b"i" * 65536), ("file", b"f" * (2 * MIB + 1))):
        call(f"object.{name}.put", s3.put_object, Bucket="objects", Key=name, Body=body)
        call(f"object.{name}.get", s3.get_object, Bucket="objects", Key=name)
        call(f"object.{name}.head", s3.head_object, Bucket="objects", Key=name)
        call(f"object.{name}.plain-put", plain.put_object, Bucket="objects", Key=name, Body=body)
        call(f"object.{name}.plain-get", plain.get_object, Bucket="objects", Key=name)
    about = {
        "ContentType": "text/x-made; charset=utf-8", "CacheControl": "max-age=5, private", "ContentDisposition": 'attachment; filename="a b.txt"',
        "ContentEncoding": "gzip", "ContentLanguage": "de, en", "Expires": datetime.datetime(2031, 1, 2, 3, 4, 5),
        "Metadata": {"one": "1", "MixedCase": "Two  words", "empty": "", "with-dash_and.dot": "x=1;y"},
    }
    call("object.about.put", s3.put_object, Bucket="objects", Key="about", Body=BODY, **about)
    call("object.about.get", s3.get_object, Bucket="objects", Key="about")
    call("object.about.head", s3.head_object, Bucket="objects", Key="about")
    over = {"ResponseContentType": "a/b", "ResponseCacheControl": "no-store", "ResponseContentDisposition": "inline", "ResponseContentEncoding": "identity", "ResponseContentLanguage": "fr", "ResponseExpires": datetime.datetime(2032, 1, 1)}
    call("object.about.get-overridden", s3.get_object, Bucket="objects", Key="about", **over)
    call("object.about.head-overridden", s3.head_object, Bucket="objects", Key="about", **over)
    call("object.about.replaced", s3.put_object, Bucket="objects", Key="about", Body=b"new")
    call("object.about.afterwards", s3.head_object, Bucket="objects", Key="about")
    signed("object.metadata.unicode", "PUT", "/objects/unicode", {"x-amz-meta-name": "Größe".encode().decode("latin-1")}, b"1")
    call("object.metadata.too-large", s3.put_object, Bucket="objects", Key="large", Body=b"", Metadata={"big": "v" * 9000})
    call("object.metadata.large", s3.put_object, Bucket="objects", Key="large", Body=b"", Metadata={"big": "v" * 1900})
    call("object.missing.get", s3.get_object, Bucket="objects", Key="nope")
    call("object.missing.head", s3.head_object, Bucket="objects", Key="nope")
    call("object.missing.delete", s3.delete_object, Bucket="objects", Key="nope")
    call("object.missing.below", s3.get_object, Bucket="objects", Key="one/below")
    call("object.version.null", s3.get_object, Bucket="objects", Key="one", VersionId="null")
    call("object.version.unknown", s3.get_object, Bucket="objects", Key="one", VersionId="7f3c1f5e-8d55-4e38-9b93-3d3b2f0f2c11")
    call("object.version.head-unknown", s3.head_object, Bucket="objects", Key="one", VersionId="7f3c1f5e-8d55-4e38-9b93-3d3b2f0f2c11")
    call("object.storage-class", s3.put_object, Bucket="objects", Key="class", Body=b"", StorageClass="STANDARD")
    call("object.storage-class-unknown", s3.put_object, Bucket="objects", Key="class", Body=b"", StorageClass="NO_SUCH")
    call("object.acl-private", s3.put_object, Bucket="objects", Key="acl", Body=b"", ACL="private")
    signed("object.no-length", "PUT", "/objects/none", {"Content-Length": "0"})
    call("object.delete", s3.delete_object, Bucket="objects", Key="one")
    call("object.delete-again", s3.delete_object, Bucket="objects", Key="one")


def ranges():
    quietly(s3.create_bucket, Bucket="ranges")
    large = BODY * 2048
    for name, body in (("small", BODY), ("large", large), ("empty", b"")):
        quietly(s3.put_object, Bucket="ranges", Key=name, Body=body)
        size = len(body)
        edges = [f"-{size * 2 + 1}", f"5-{size * 3 + 5}", f"{size}-", f"{size + 10}-{size + 20}"]
        edges += [f"{size - 1}-"] if size else []
        for range_ in ("0-0", "10-19", "500-", "-7", "-0", *edges, "20-10", "0-3,4-5", "x-y", "", "-", "1--2", "+1-2"):
            for verb, method in (("get", s3.get_object), ("head", s3.head_object)):
                call(f"range.{name}.{range_}.{verb}", method, Bucket="ranges", Key=name, Range=f"bytes={range_}")
        call(f"range.{name}.other-unit", s3.get_object, Bucket="ranges", Key=name, Range="lines=1-2")
        call(f"range.{name}.part-1", s3.get_object, Bucket="ranges", Key=name, PartNumber=1)
        call(f"range.{name}.part-2", s3.get_object, Bucket="ranges", Key=name, PartNumber=2)
        call(f"range.{name}.part-and-range", s3.get_object, Bucket="ranges", Key=name, PartNumber=1, Range="bytes=0-1")
        call(f"range.{name}.head-part-1", s3.head_object, Bucket="ranges", Key=name, PartNumber=1)


def conditions():
    quietly(s3.create_bucket, Bucket="conditions")
    tag = quietly(s3.put_object, Bucket="conditions", Key="k", Body=BODY)["ETag"]
    when = quietly(s3.head_object, Bucket="conditions", Key="k")["LastModified"]
    before, after = when - datetime.timedelta(hours=1), when + datetime.timedelta(seconds=1)
    other = '"00000000000000000000000000000000"'
    wanted = {
        "match": {"IfMatch": tag}, "match-unquoted": {"IfMatch": tag.strip('"')}, "match-other": {"IfMatch": other}, "match-any": {"IfMatch": "*"},
        "none-match": {"IfNoneMatch": tag}, "none-match-other": {"IfNoneMatch": other}, "none-match-any": {"IfNoneMatch": "*"},
        "modified-since-before": {"IfModifiedSince": before}, "modified-since-same": {"IfModifiedSince": when},
        "unmodified-since-before": {"IfUnmodifiedSince": before}, "unmodified-since-same": {"IfUnmodifiedSince": when}, "unmodified-since-after": {"IfUnmodifiedSince": after},
        "match-outweighs-unmodified": {"IfMatch": tag, "IfUnmodifiedSince": before},
        "none-match-outweighs-modified": {"IfNoneMatch": tag, "IfModifiedSince": before},
        "none-match-other-outweighs-modified": {"IfNoneMatch": other, "IfModifiedSince": when},
        "match-and-range": {"IfMatch": tag, "Range": "bytes=1-3"}, "none-match-and-range": {"IfNoneMatch": tag, "Range": "bytes=1-3"},
    }
    for name, arguments in wanted.items():
        for verb, method in (("get", s3.get_object), ("head", s3.head_object)):
            call(f"condition.{verb}.{name}", method, Bucket="conditions", Key="k", **arguments)
    call("condition.get-missing.match", s3.get_object, Bucket="conditions", Key="none", IfMatch=tag)
    call("condition.get-missing.none-match", s3.get_object, Bucket="conditions", Key="none", IfNoneMatch="*")
    put = lambda name, key, **how: call(f"condition.put.{name}", s3.put_object, Bucket="conditions", Key=key, Body=b"put", **how)
    put("none-match-any-present", "k", IfNoneMatch="*")
    put("none-match-any-absent", "new", IfNoneMatch="*")
    put("match-other", "k", IfMatch=other)
    put("match-missing", "none", IfMatch=tag)
    put("match", "k", IfMatch=tag)
    tag = quietly(s3.head_object, Bucket="conditions", Key="k")["ETag"]
    put("match-unquoted", "k", IfMatch=tag.strip('"'))
    put("none-match-tag-present", "k", IfNoneMatch=tag)
    put("none-match-other-tag", "k", IfNoneMatch=other)
    put("match-any", "k", IfMatch="*")
    call("condition.delete.match-other", s3.delete_object, Bucket="conditions", Key="k", IfMatch=other)
    call("condition.delete.match", s3.delete_object, Bucket="conditions", Key="k", IfMatch=quietly(s3.head_object, Bucket="conditions", Key="new")["ETag"])
    upload = quietly(s3.create_multipart_upload, Bucket="conditions", Key="new")["UploadId"]
    part = quietly(s3.upload_part, Bucket="conditions", Key="new", UploadId=upload, PartNumber=1, Body=b"p")
    named = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    complete = lambda name, **how: call(f"condition.complete.{name}", s3.complete_multipart_upload, Bucket="conditions", Key="new", UploadId=upload, MultipartUpload=named, **how)
    complete("none-match-any", IfNoneMatch="*")
    complete("match-other", IfMatch=other)
    complete("match", IfMatch=quietly(s3.head_object, Bucket="conditions", Key="new")["ETag"])


def tags():
    quietly(s3.create_bucket, Bucket="tags")
    quietly(s3.put_object, Bucket="tags", Key="k", Body=b"1")
    call("tags.none", s3.get_object_tagging, Bucket="tags", Key="k")
    call("tags.get-missing", s3.get_object_tagging, Bucket="tags", Key="none")
    call("tags.put-missing", s3.put_object_tagging, Bucket="tags", Key="none", Tagging={"TagSet": []})
    call("tags.delete-missing", s3.delete_object_tagging, Bucket="tags", Key="none")
    call("tags.by-header", s3.put_object, Bucket="tags", Key="h", Body=b"1", Tagging="z=1&b+c=%2Bd&e=")
    tag_set("tags.by-header-read", s3.get_object_tagging, Bucket="tags", Key="h")
    call("tags.by-header-get", s3.get_object, Bucket="tags", Key="h")
    call("tags.by-header-head", s3.head_object, Bucket="tags", Key="h")
    for name, header in (("doubled", "a=1&a=2"), ("unnamed", "=1"), ("eleven", "&".join(f"k{n}=v" for n in range(11))), ("long-value", "a=" + "v" * 257), ("unreadable", "a=%zz"), ("no-value", "alone"), ("letters", "%C3%A4=%C3%B6")):
        call(f"tags.header-{name}", s3.put_object, Bucket="tags", Key=f"bad-{name}", Body=b"", Tagging=header)
    sets = {
        "ten": [{"Key": f"k{n}", "Value": "v"} for n in range(10)], "eleven": [{"Key": f"k{n}", "Value": "v"} for n in range(11)],
        "doubled": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}], "unnamed": [{"Key": "", "Value": "1"}], "long-name": [{"Key": "n" * 129, "Value": ""}],
        "long-value": [{"Key": "n", "Value": "v" * 257}], "long-enough": [{"Key": "n" * 128, "Value": "v" * 256}], "reserved": [{"Key": "aws:x", "Value": "1"}], "signs": [{"Key": "a b+c-d.e_f:g/h=i@j", "Value": "x y"}], "letters": [{"Key": "ä", "Value": "ü"}],
        "other-signs": [{"Key": "a&b", "Value": "<c>"}],
    }
    for name, given in sets.items():
        call(f"tags.set-{name}", s3.put_object_tagging, Bucket="tags", Key="k", Tagging={"TagSet": given})
    quietly(s3.put_object_tagging, Bucket="tags", Key="k", Tagging={"TagSet": sets["ten"]})
    tag_set("tags.kept", s3.get_object_tagging, Bucket="tags", Key="k")
    call("tags.delete", s3.delete_object_tagging, Bucket="tags", Key="k")
    call("tags.deleted", s3.get_object_tagging, Bucket="tags", Key="k")
    call("tags.gone-by-put", s3.put_object, Bucket="tags", Key="h", Body=b"2")
    call("tags.gone", s3.get_object_tagging, Bucket="tags", Key="h")


def deletes():
    quietly(s3.create_bucket, Bucket="deletes")
    for number in range(12):
        quietly(s3.put_object, Bucket="deletes", Key=f"k {number:02}+", Body=b".")
    some = [{"Key": f"k {number:02}+"} for number in range(4)]
    call("delete-many.some", s3.delete_objects, Bucket="deletes", Delete={"Objects": some + [{"Key": "never there"}]})
    call("delete-many.quiet", s3.delete_objects, Bucket="deletes", Delete={"Objects": [{"Key": "k 05+"}], "Quiet": True})
    call("delete-many.null-version", s3.delete_objects, Bucket="deletes", Delete={"Objects": [{"Key": "k 06+", "VersionId": "null"}]})
    call("delete-many.same-twice", s3.delete_objects, Bucket="deletes", Delete={"Objects": [{"Key": "k 07+"}, {"Key": "k 07+"}]})
    call("delete-many.none", s3.delete_objects, Bucket="deletes", Delete={"Objects": []})
    call("delete-many.too-many", s3.delete_objects, Bucket="deletes", Delete={"Objects": [{"Key": str(n)} for n in range(1001)]})
    call("delete-many.missing-bucket", s3.delete_objects, Bucket="not-there", Delete={"Objects": some})
    signed("delete-many.not-xml", "POST", "/deletes?delete", {"Content-MD5": "XUFAKrxLKna5cZ2REBfFkg=="}, b"hello")
    many = b"<Delete><Object><Key>never there</Key></Object></Delete>"
    signed("delete-many.wrong-md5", "POST", "/deletes?delete", {"Content-MD5": "XUFAKrxLKna5cZ2REBfFkg=="}, many)
    signed("delete-many.wrong-sum", "POST", "/deletes?delete", {"x-amz-checksum-crc32": "AAAAAA=="}, many)
    quietly(s3.put_object, Bucket="deletes", Key="🦀", Body=b".")
    far = b"<Delete><Object><Key>&#129408;</Key></Object></Delete>"
    signed("delete-many.as-numbers", "POST", "/deletes?delete", {"Content-MD5": md5(far)}, far)
    call("delete-many.left", s3.list_objects_v2, Bucket="deletes")
    call("delete-many.strange", s3.delete_objects, Bucket="deletes", Delete={"Objects": [{"Key": "a/../b"}, {"Key": "new\nline"}]})
    call("delete-many.lead", s3.delete_objects, Bucket="deletes", Delete={"Objects": [{"Key": "/lead"}]})


SECTIONS = [buckets, bucket_tags, round_trips, ranges, conditions, tags, deletes]
