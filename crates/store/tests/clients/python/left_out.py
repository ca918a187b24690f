"""Every operation of S3 that boto3 knows: what the store leaves out answers NotImplemented."""

import datetime

from botocore.exceptions import ClientError
from recorder import s3

DONE = """
    AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket CreateMultipartUpload DeleteBucket DeleteBucketTagging
    DeleteObject DeleteObjectTagging DeleteObjects GetBucketLocation GetBucketTagging GetObject GetObjectTagging HeadBucket
    HeadObject ListBuckets ListMultipartUploads ListObjects ListObjectsV2 ListParts PutBucketTagging PutObject PutObjectTagging
    UploadPart UploadPartCopy
""".split()
# These belong to other services or hosts, and cannot be sent to a store by their nature: sessions and lists of directory
# buckets are asked of S3 Express, answers of functions are sent to hosts of their own.
ELSEWHERE = ["CreateSession", "ListDirectoryBuckets", "WriteGetObjectResponse"]


def made_up(shape, name=""):
    """A value that the operation takes."""
    known = {"Bucket": "plain", "Key": "k", "CopySource": "plain/k", "Policy": "{}", "RenameSource": "/plain/k"}
    if name in known:
        return known[name]
    if shape.type_name == "structure":
        members = shape.members if not shape.required_members and len(shape.members) == 1 else shape.required_members
        return {member: made_up(shape.members[member], member) for member in members}
    if shape.type_name == "list":
        return [made_up(shape.member)]
    if getattr(shape, "enum", None):
        return shape.enum[0]
    simple = {"string": "x", "integer": 1, "long": 1, "boolean": True, "blob": b"x", "map": {}, "float": 1.0}
    return datetime.datetime(2030, 1, 1) if shape.type_name == "timestamp" else simple[shape.type_name]


def code_of(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    return 200, "done"


s3.create_bucket(Bucket="plain")
s3.put_object(Bucket="plain", Key="k", Body=b"1")
wrong, asked = {}, []
for name in s3.meta.service_model.operation_names:
    if name in DONE or name in ELSEWHERE:
        continue
    asked.append(name)
    method = next(method for method, operation in s3.meta.method_to_api_mapping.items() if operation == name)
    shape = s3.meta.service_model.operation_model(name).input_shape
    found = code_of(getattr(s3, method), **made_up(shape))
    if found not in ((501, "NotImplemented"), (501, "501")):
        wrong[name] = found
assert not wrong, wrong

extras = {
    "acl": {"ACL": "public-read"}, "grant": {"GrantRead": "id=x"}, "encryption": {"ServerSideEncryption": "AES256"}, "kms": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "x"},
    "own key": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}, "hold": {"ObjectLockLegalHoldStatus": "ON"},
    "lock": {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": datetime.datetime(2030, 1, 1)}, "website": {"WebsiteRedirectLocation": "/x"}, "append": {"WriteOffsetBytes": 1},
}
for name, arguments in extras.items():
    found = code_of(s3.put_object, Bucket="plain", Key="k", Body=b"2", **arguments)
    assert found == (501, "NotImplemented"), (name, found)
for arguments in ({"ObjectLockEnabledForBucket": True}, {"ACL": "public-read"}, {"GrantWrite": "id=x"}):
    assert code_of(s3.create_bucket, Bucket="other", **arguments) == (501, "NotImplemented"), arguments
assert s3.get_object(Bucket="plain", Key="k")["Body"].read() == b"1"
assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["plain"]
print("left out:", " ".join(asked))
