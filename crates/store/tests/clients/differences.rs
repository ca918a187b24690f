//! Where the store and MinIO answer differently, and why that is right.

/// One reason, and where it shows.
pub(crate) struct Difference {
    pub(crate) why: &'static str,
    /// What was asked (`*` is any text), what the store said, what MinIO said. A place is one
    /// aspect of an answer (`head.ETag`), or a whole answer (`head`) with its status and code.
    pub(crate) cases: &'static [(&'static str, &'static str, &'static str)],
}

pub(crate) struct Case {
    pub(crate) at: &'static str,
    pub(crate) why: &'static str,
    store: &'static str,
    minio: &'static str,
}

impl Difference {
    pub(crate) fn cases(&self) -> impl Iterator<Item = Case> + use<> {
        let why = self.why;
        self.cases.iter().map(move |(at, store, minio)| Case { at, why, store, minio })
    }
}

impl Case {
    pub(crate) fn explains(&self, place: &str, said: (&str, &str)) -> bool {
        (self.store, self.minio) == said && is_like(self.at, place)
    }
}

fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| is_like(rest, &text[at..]))
        }),
    }
}

/// In the words of S3's documentation, MinIO deviates in all of these but those that begin with
/// "The store".
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        why: "Headers that were not signed are refused with 403. MinIO lets them into signed requests, and lets the \
              holder of an address for an upload copy any object.",
        cases: &[
            ("address.copy-source", "403 AccessDenied", "200"),
            ("address.metadata", "403 AccessDenied", "400 AccessDenied"),
            ("signature.added-header", "403 AccessDenied", "200"),
        ],
    },
    Difference {
        why: "A signature for a header that is not sent is a wrong one.",
        cases: &[("address.signed-metadata-missing", "403 SignatureDoesNotMatch", "400 AccessDenied")],
    },
    Difference {
        why: "The store calls an address from the future by the same name as any request from another time, and looks \
              at a signature before it looks at the time.",
        cases: &[
            ("address.future", "403 RequestTimeTooSkewed", "403 AccessDenied"),
            ("signature.old-date", "403 SignatureDoesNotMatch", "403 RequestTimeTooSkewed"),
        ],
    },
    Difference {
        why: "What is wrong with a header of the wrong form has names in S3.",
        cases: &[
            ("signature.basic", "400 InvalidArgument", "400 InvalidRequest"),
            ("signature.nonsense", "400 InvalidArgument", "400 InvalidRequest"),
            ("signature.other-algorithm", "400 InvalidArgument", "400 MissingFields"),
            ("signature.half", "400 AuthorizationHeaderMalformed", "400 MissingFields"),
            ("signature.no-date", "403 AccessDenied", "400 AccessDenied"),
            ("sum.sha256.nonsense", "400 InvalidArgument", "400 XAmzContentSHA256Mismatch"),
        ],
    },
    Difference {
        why: "The store answers a verb that a resource does not have as everything that is left out.",
        cases: &[("verb.*", "501 NotImplemented", "400 BadRequest"), ("verb.HEAD./.status", "501", "400")],
    },
    Difference {
        why: "The store refuses a part of a bucket or object that it does not know: else removing it would remove the \
              whole.",
        cases: &[("query.unknown-bucket", "501 NotImplemented", "200")],
    },
    Difference {
        why: "Tags may have letters of any alphabet; `aws:` is not for users; wrong ones are InvalidTag, too many \
              BadRequest.",
        cases: &[
            ("bucket-tags.letters", "200", "400 MalformedXML"),
            ("bucket-tags.doubled", "400 InvalidTag", "400 MalformedXML"),
            ("bucket-tags.long-name", "400 InvalidTag", "400 MalformedXML"),
            ("bucket-tags.too-many", "400 BadRequest", "400 MalformedXML"),
            ("bucket-tags.missing-bucket", "404 NoSuchBucket", "404 NoSuchTagSet"),
            ("tags.header-letters", "200", "400 InvalidTag"),
            ("tags.set-letters", "200", "400 InvalidTag"),
            ("tags.set-reserved", "400 InvalidTag", "200"),
            ("tags.header-unreadable", "400 InvalidArgument", "400 XMinioInvalidObjectName"),
        ],
    },
    Difference {
        why: "Names of buckets: a dash may stand beside a dot, `xn--` may not begin one.",
        cases: &[
            ("bucket.name.dot.-dash", "200", "400 InvalidBucketName"),
            ("bucket.name.xn--made", "400 InvalidBucketName", "200"),
        ],
    },
    Difference {
        why: "The region of a bucket is told.",
        cases: &[("bucket.head.BucketRegion", "\"us-east-1\"", "nothing")],
    },
    Difference {
        why: "Conditions on deleting, and on the target of a copy, are kept.",
        cases: &[
            ("condition.delete.match-other", "412 PreconditionFailed", "204"),
            ("copy.if-none-match", "412 PreconditionFailed", "200"),
        ],
    },
    Difference {
        why: "A condition on a tag outweighs one on a date.",
        cases: &[
            ("condition.get.none-match-other-outweighs-modified", "200", "304 304"),
            ("condition.head.none-match-other-outweighs-modified", "200", "304 304"),
            ("copy.condition.match-and-unmodified-before", "200", "412 PreconditionFailed"),
        ],
    },
    Difference {
        why: "Other tags alone are no reason to copy an object onto itself.",
        cases: &[
            ("copy.itself-tags", "400 InvalidRequest", "200"),
            ("copy.itself-tags.head", "nothing", "200"),
            ("copy.itself-tags.tags", "nothing", "200"),
        ],
    },
    Difference {
        why: "A copy tells its checksum in the body of the answer. The store keeps those that it was given; MinIO and \
              S3 also make one (CRC-64/NVME) that nobody asked for.",
        cases: &[
            (
                "copy.checksum.CopyObjectResult",
                r#"{"ChecksumSHA256": "Iw2DWNyOiJC0xY3utikS7i8gNXrpKlzIYbmOaP4xrLU=", "ETag": "\"841a2d689ad86bd1611447453c22c6fc\"", "LastModified": "(time)"}"#,
                r#"{"ETag": "\"841a2d689ad86bd1611447453c22c6fc\"", "LastModified": "(time)"}"#,
            ),
            (
                "copy.summed.CopyObjectResult",
                r#"{"ChecksumCRC32": "26gLsg==", "ETag": "\"841a2d689ad86bd1611447453c22c6fc\"", "LastModified": "(time)"}"#,
                r#"{"ETag": "\"841a2d689ad86bd1611447453c22c6fc\"", "LastModified": "(time)"}"#,
            ),
            (
                "copy.source.lead.headers",
                "{}",
                r#"{"etag": "\"841a2d689ad86bd1611447453c22c6fc\"", "x-amz-checksum-crc64nvme": "mI+Ji1NHP80=", "x-amz-checksum-type": "FULL_OBJECT"}"#,
            ),
            ("copy.odd-name-get.ChecksumCRC64NVME", "nothing", "\"HMLIzdqiKZc=\""),
            ("copy.odd-name-get.ChecksumType", "nothing", "\"FULL_OBJECT\""),
        ],
    },
    Difference {
        why: "Versions are told where there are versions.",
        cases: &[("copy.null-version.CopySourceVersionId", "nothing", "\"null\"")],
    },
    Difference {
        why: "Wrong checksums are BadDigest, what is no checksum and several of them InvalidRequest, a trailer that was \
              not announced MalformedTrailerError.",
        cases: &[
            ("sum.*.wrong", "400 BadDigest", "400 XAmzContentChecksumMismatch"),
            ("part-sums.*wrong*", "400 BadDigest", "400 XAmzContentChecksumMismatch"),
            ("trailer.chunked.wrong", "400 BadDigest", "400 XAmzContentChecksumMismatch"),
            ("trailer.chunked.other-name", "400 MalformedTrailerError", "400 BadRequest"),
            ("sum.*.short", "400 InvalidRequest", "400 InvalidArgument"),
            ("sum.*.nonsense", "400 InvalidRequest", "400 InvalidArgument"),
            ("delete-many.wrong-*", "400 BadDigest", "200"),
            ("sum.two", "400 InvalidRequest", "400 InvalidArgument"),
            ("part-sums.impossible.SHA256", "400 InvalidRequest", "400 InvalidArgument"),
            ("part-sums.impossible.CRC64NVME", "400 InvalidRequest", "200"),
        ],
    },
    Difference {
        why: "The kind of the checksum is told when an upload in parts is completed.",
        cases: &[
            ("part-sums.*.complete.ChecksumType", "\"COMPOSITE\"", "nothing"),
            ("part-sums.CRC32-FULL_OBJECT.complete.ChecksumType", "\"FULL_OBJECT\"", "nothing"),
            ("part-sums.whole.right.ChecksumType", "\"FULL_OBJECT\"", "nothing"),
        ],
    },
    Difference {
        why: "An upload in parts that is not there cannot be aborted; a part is named once and has a number.",
        cases: &[
            ("upload.abort-after", "404 NoSuchUpload", "204"),
            ("uploads.abort-*", "404 NoSuchUpload", "204"),
            ("uploads.part-named-twice", "400 InvalidPartOrder", "200"),
            ("upload.part-number-*", "400 InvalidArgument", "400 InvalidPart"),
        ],
    },
    Difference {
        why: "The store answers a completion that is repeated as it answered the first: the answer may have been lost.",
        cases: &[("upload.complete.again", "200", "404 NoSuchUpload")],
    },
    Difference {
        why: "The store reads the body of a completion before it asks for parts.",
        cases: &[("upload.complete.no-body", "400 MalformedXML", "400 InvalidRequest")],
    },
    Difference {
        why: "Pages have at most 1000 entries, and say so.",
        cases: &[
            ("upload.list*.MaxParts", "1000", "10000"),
            ("part-sums.*.list.MaxParts", "1000", "10000"),
            ("uploads.*.MaxUploads", "1000", "10000"),
            ("list.*.too-many.MaxKeys", "1000", "5000"),
            ("list.raw.huge-limit", "400 InvalidArgument", "200"),
        ],
    },
    Difference {
        why: "The class of an upload is told.",
        cases: &[(
            "uploads.one.Uploads",
            r#"[{"Initiated": "(time)", "Initiator": "(owner)", "Key": "one", "Owner": "(owner)", "StorageClass": "STANDARD", "UploadId": "(id)"}]"#,
            r#"[{"Initiated": "(time)", "Initiator": "(owner)", "Key": "one", "Owner": "(owner)", "UploadId": "(id)"}]"#,
        )],
    },
    Difference {
        why: "Keys are any text. MinIO keeps them as paths: it does not list what is below an object, refuses empty \
              segments, and drops a slash at the beginning.",
        cases: &[
            ("list.object-above-another", r#"["b", "b/below"]"#, r#"["b"]"#),
            ("name.bad.doubled.put", "200", "400 XMinioInvalidObjectName"),
            ("name.bad.doubled.get", "200", "400 XMinioInvalidObjectName"),
            ("name.bad.doubled.head", "200", "400 400"),
            ("name.bad.doubled.delete", "204", "400 XMinioInvalidObjectName"),
            ("name.raw.slashes.GET", "404 NoSuchKey", "400 XMinioInvalidObjectName"),
            ("name.raw.slashes.PUT", "200", "400 XMinioInvalidObjectName"),
            ("name.raw.slashes.HEAD", "200", "400 0 bytes, d41d8cd98f00b204e9800998ecf8427e"),
            ("delete-many.lead.Deleted", r#"[{"Key": "/lead"}]"#, r#"[{"Key": "lead"}]"#),
            ("list.*.dotted", "200", "400 XMinioInvalidResourceName"),
        ],
    },
    Difference {
        why: "The store refuses segments `.` and `..` as MinIO does, but has one code for it.",
        cases: &[
            ("name.bad.*dot*", "400 XMinioInvalidObjectName", "400 XMinioInvalidResourceName"),
            ("copy.bad-name", "400 XMinioInvalidObjectName", "400 XMinioInvalidResourceName"),
            ("uploads.create-bad-name", "400 XMinioInvalidObjectName", "400 XMinioInvalidResourceName"),
        ],
    },
    Difference {
        why: "A key that is too long is always told so.",
        cases: &[
            ("name.bad.too-long.get", "400 KeyTooLongError", "404 NoSuchKey"),
            ("name.bad.too-long.head", "400 400", "404 404"),
            ("name.bad.too-long.delete", "400 KeyTooLongError", "204"),
        ],
    },
    Difference {
        why: "What cannot be decoded is an InvalidURI or InvalidArgument; half an escape is taken as it stands.",
        cases: &[
            ("name.raw.not-utf8.GET", "400 InvalidURI", "403 SignatureDoesNotMatch"),
            ("name.raw.not-utf8.PUT", "400 InvalidURI", "403 SignatureDoesNotMatch"),
            ("name.raw.not-utf8.HEAD.status", "400", "403"),
            ("copy.source.not-utf8", "400 InvalidArgument", "400 XMinioInvalidObjectName"),
            ("name.raw.half-escape.*", "403 SignatureDoesNotMatch", "400 15 bytes, 6196dba52703776af2e6593f772ed7ce"),
            ("name.raw.half-escape.HEAD.status", "403", "400"),
        ],
    },
    Difference {
        why: "A fold is listed when it holds keys behind the marker, also when it begins before it.",
        cases: &[
            (
                "list.*.between.folded.CommonPrefixes",
                r#"[{"Prefix": "a/"}, {"Prefix": "b/"}, {"Prefix": "c/"}, {"Prefix": "d/"}, {"Prefix": "ä/"}]"#,
                r#"[{"Prefix": "b/"}, {"Prefix": "c/"}, {"Prefix": "d/"}, {"Prefix": "ä/"}]"#,
            ),
            (
                "list.*.in-fold.folded.CommonPrefixes",
                r#"[{"Prefix": "b/"}, {"Prefix": "c/"}, {"Prefix": "d/"}, {"Prefix": "ä/"}]"#,
                r#"[{"Prefix": "c/"}, {"Prefix": "d/"}, {"Prefix": "ä/"}]"#,
            ),
            ("list.v2.start-after.between.folded.KeyCount", "9", "8"),
            ("list.v2.start-after.in-fold.folded.KeyCount", "7", "6"),
            ("list.v2.page-1.CommonPrefixes", r#"[{"Prefix": "a/"}]"#, r#"[{"Prefix": "b/"}]"#),
            ("list.v2.page-2.CommonPrefixes", r#"[{"Prefix": "b/"}]"#, "nothing"),
            (
                "list.v2.page-2.Contents",
                r#"[{"ETag": "\"21ad0bd836b90d08f4cf640b4c298e7c\"", "Key": "bb", "LastModified": "(time)", "Size": 2, "StorageClass": "STANDARD"}]"#,
                r#"[{"ETag": "\"21ad0bd836b90d08f4cf640b4c298e7c\"", "Key": "bb", "LastModified": "(time)", "Size": 2, "StorageClass": "STANDARD"}, {"ETag": "\"4a8a08f09d37b73795649038408b5f33\"", "Key": "c", "LastModified": "(time)", "Size": 1, "StorageClass": "STANDARD"}]"#,
            ),
        ],
    },
    Difference {
        why: "A marker need not begin with the prefix.",
        cases: &[("list.v1.below.elsewhere", "200", "501 NotImplemented")],
    },
    Difference {
        why: "Deleting a key twice in one request names it twice.",
        cases: &[(
            "delete-many.same-twice.Deleted",
            r#"[{"Key": "k 07+"}, {"Key": "k 07+"}]"#,
            r#"[{"Key": "k 07+"}, {}]"#,
        )],
    },
    Difference {
        why: "The store refuses a range that it cannot read, and several ranges, where S3 gives the whole object; both \
              is within the rules of HTTP.",
        cases: &[
            ("range.*.get", "400 InvalidArgument", "200"),
            ("range.*.head", "400 400", "200"),
            ("range.*.other-unit", "400 InvalidArgument", "200"),
            ("range.*.20-10.get", "400 InvalidArgument", "416 InvalidRange"),
            ("range.*.20-10.head", "400 400", "416 416"),
            ("range.*.-.get", "416 InvalidRange", "200"),
            ("range.*.-.head", "416 416", "200"),
        ],
    },
    Difference {
        why: "The end of an empty object cannot be given; MinIO names it as bytes 0 to -1. Its first part is the whole.",
        cases: &[
            ("range.empty.-*.get", "416 InvalidRange", "206"),
            ("range.empty.-*.head", "416 416", "206"),
            ("range.empty.part-1", "200", "206"),
            ("range.empty.head-part-1", "200", "206"),
        ],
    },
];
