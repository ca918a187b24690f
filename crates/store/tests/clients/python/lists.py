"""Lists in both versions, and names that are hard to write."""

from recorder import call, note, quietly, s3, signed

ODD = [
    "a b", "a+b", "a%20b", "a%2Fb", "a%b", "ä/ö/ü", "日本/語", "emoji 🦀", "trail/", "deep/er/and/deeper", "q?x=1&y#z", "semi;colon", "amp&ersand",
    "'single'", '"double"', "<less>", "a,b:c@d$e!f*g(h)i", "[j]{k}|l^m`n~o", "..a/b..", "...", "dot.", ".hidden", "a=b", "~tilde", "under_score-dash",
    "e\u0301", "\u00e9", "k" * 200 + "/" + "l" * 200,
]
# Each part of it is short enough for a file name, for stores that keep objects as files.
LONGEST = "/".join(["n" * 200] * 6)[:1024]


def encoded(label, page):
    """A space may be written as `+` or `%20`, a tilde as itself or `%7E`; nothing else in two ways."""
    keys = [one["Key"] for one in page.get("Contents", [])] + [one["Prefix"] for one in page.get("CommonPrefixes", [])]
    note(label, [name.replace("+", "%20").replace("%7E", "~") for name in [*keys, page["Prefix"], page.get("Delimiter", "")]])


def odd_names():
    quietly(s3.create_bucket, Bucket="names")
    assert len(LONGEST) == 1024
    for number, key in enumerate([*ODD, LONGEST]):
        call(f"name.{number}.put", s3.put_object, Bucket="names", Key=key, Body=key.encode())
        call(f"name.{number}.get", s3.get_object, Bucket="names", Key=key)
    for version, method in (("v1", s3.list_objects), ("v2", s3.list_objects_v2)):
        call(f"names.{version}", method, Bucket="names")
        # boto3 asks for the encoding by itself and undoes it; asking by hand leaves it as it is.
        encoded(f"names.{version}.encoded", method(Bucket="names", EncodingType="url"))
        encoded(f"names.{version}.encoded-folded", method(Bucket="names", EncodingType="url", Delimiter="/"))
        encoded(f"names.{version}.encoded-prefix", method(Bucket="names", EncodingType="url", Prefix="a b", Delimiter="+"))
        call(f"names.{version}.bad-encoding", method, Bucket="names", EncodingType="base64")
    for name, key in (("dots", "a/../b"), ("only-dots", ".."), ("lead-dots", "../a"), ("trail-dots", "a/.."), ("dot", "a/./b"), ("only-dot", "."), ("too-long", "k/" * 512 + "k"), ("lead", "/lead"), ("doubled", "a//b"), ("backslash", "a\\b"), ("line", "new\nline"), ("tab", "tab\t"), ("bell", "bell\x07")):
        for verb, method, more in (("put", s3.put_object, {"Body": b"x"}), ("get", s3.get_object, {}), ("head", s3.head_object, {}), ("delete", s3.delete_object, {})):
            call(f"name.bad.{name}.{verb}", method, Bucket="names", Key=key, **more)
    for verb in ("GET", "PUT", "HEAD"):
        for name, path in (("nul", "/names/a%00b"), ("not-utf8", "/names/%ff%fe"), ("half-escape", "/names/a%2"), ("slash-only", "/names/"), ("slashes", "/names//"), ("encoded-slash", "/names/x%2Fy")):
            signed(f"name.raw.{name}.{verb}", verb, path, body=b"1" if verb == "PUT" else b"")


def listings():
    quietly(s3.create_bucket, Bucket="lists")
    keys = [f"a/{n:02}" for n in range(6)] + [f"b/{n}/x" for n in range(4)] + ["b-", "bb", "c", "c/", "d/e/f", "d/e/g", "ä/ö", "z"]
    for key in keys:
        quietly(s3.put_object, Bucket="lists", Key=key, Body=key.encode())
    shapes = {
        "all": {}, "prefix": {"Prefix": "a/"}, "prefix-part": {"Prefix": "a/0"}, "prefix-none": {"Prefix": "nothing"}, "prefix-unicode": {"Prefix": "ä"},
        "folded": {"Delimiter": "/"}, "folded-prefix": {"Prefix": "b/", "Delimiter": "/"}, "folded-prefix-open": {"Prefix": "b", "Delimiter": "/"},
        "folded-exact": {"Prefix": "c/", "Delimiter": "/"}, "folded-long": {"Delimiter": "/e/"}, "folded-letter": {"Delimiter": "0"}, "no-delimiter": {"Delimiter": ""},
        "zero": {"MaxKeys": 0}, "too-many": {"MaxKeys": 5000}, "negative": {"MaxKeys": -1}, "three": {"MaxKeys": 3}, "slash": {"Prefix": "/"}, "dotted": {"Prefix": "a/../b"},
    }
    for name, arguments in shapes.items():
        call(f"list.v1.{name}", s3.list_objects, Bucket="lists", **arguments)
        call(f"list.v2.{name}", s3.list_objects_v2, Bucket="lists", **arguments)
    for name, after in (("key", "b"), ("between", "a/025"), ("fold", "a/"), ("in-fold", "b/1"), ("last", "zz"), ("before-all", "A"), ("unicode", "ä/ö")):
        for folded in ({}, {"Delimiter": "/"}):
            label = f"{name}{'.folded' if folded else ''}"
            call(f"list.v1.marker.{label}", s3.list_objects, Bucket="lists", Marker=after, **folded)
            call(f"list.v2.start-after.{label}", s3.list_objects_v2, Bucket="lists", StartAfter=after, **folded)
    for name, after in (("before", "b/"), ("within", "b/1"), ("fold", "b/1/"), ("behind", "b/9"), ("elsewhere", "a")):
        call(f"list.v1.below.{name}", s3.list_objects, Bucket="lists", Prefix="b/", Delimiter="/", Marker=after)
        call(f"list.v2.below.{name}", s3.list_objects_v2, Bucket="lists", Prefix="b/", Delimiter="/", StartAfter=after)
    quietly(s3.create_bucket, Bucket="list-nested")
    for key in ("b", "b/below"):
        quietly(s3.put_object, Bucket="list-nested", Key=key, Body=b"")
    note("list.object-above-another", [o["Key"] for o in s3.list_objects_v2(Bucket="list-nested")["Contents"]])
    call("list.v2.owner", s3.list_objects_v2, Bucket="lists", MaxKeys=1, FetchOwner=True)
    call("list.v2.bad-token", s3.list_objects_v2, Bucket="lists", ContinuationToken="#nonsense#")
    call("list.v2.empty-token", s3.list_objects_v2, Bucket="lists", ContinuationToken="")
    for name, path in (("text-limit", "/lists?list-type=2&max-keys=many"), ("v1-text-limit", "/lists?max-keys=many"), ("huge-limit", "/lists?list-type=2&max-keys=99999999999"), ("type-3", "/lists?list-type=3")):
        signed(f"list.raw.{name}", "GET", path)
    for size in (1, 2, 5):
        for folded in ({}, {"Delimiter": "/"}, {"Prefix": "b/", "Delimiter": "/"}):
            for version, operation in (("v1", "list_objects"), ("v2", "list_objects_v2")):
                pages = s3.get_paginator(operation).paginate(Bucket="lists", PaginationConfig={"PageSize": size}, **folded)
                shown = [[o["Key"] for o in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])] for page in pages]
                # MinIO may promise a last page that turns out to be empty.
                note(f"list.{version}.pages.{size}.{folded}", [page for page in shown if page])
    first = call("list.v2.page-1", s3.list_objects_v2, Bucket="lists", MaxKeys=2, StartAfter="a/01", Delimiter="/")
    call("list.v2.page-2", s3.list_objects_v2, Bucket="lists", MaxKeys=2, StartAfter="a/01", Delimiter="/", ContinuationToken=first["NextContinuationToken"])
    quietly(s3.create_bucket, Bucket="list-empty")
    call("list.v1.empty", s3.list_objects, Bucket="list-empty")
    call("list.v2.empty", s3.list_objects_v2, Bucket="list-empty", Delimiter="/")


SECTIONS = [odd_names, listings]
