"""Uploads many files with boto3, several at a time, and later looks at what became of each.

Every third upload goes to a service whose outputs start a second one. Exits non-zero at the first surprise.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

count = int(os.environ["OSCAR_TEST_UPLOADS"])
here = threading.local()
speaking = threading.Lock()


def store():
    # One for each thread, so that each has patience of its own; boto3 itself tries again what was refused or cut off.
    if not hasattr(here, "client"):
        patience = {"mode": "standard", "total_max_attempts": 40}
        here.client = boto3.client(
            "s3",
            endpoint_url=os.environ["OSCAR_TEST_ENDPOINT"],
            aws_access_key_id=os.environ["OSCAR_TEST_KEY"],
            aws_secret_access_key=os.environ["OSCAR_TEST_SECRET"],
            region_name="us-east-1",
            config=Config(retries=patience, connect_timeout=5, read_timeout=30),
        )
    return here.client


def bucket_of(number):
    return "first" if number % 3 == 0 else "alone"


def name_of(number):
    return "%04d.txt" % number


def upload(number):
    try:
        # With the condition a repeated upload is the same one, also when only its answer was lost.
        body = b"text %d" % number
        store().put_object(Bucket=bucket_of(number), Key="in/" + name_of(number), Body=body, IfNoneMatch="*")
        said = "stored"
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        said = "stored before"
    with speaking:
        print(said, flush=True)


def outputs(bucket):
    found = {}
    for page in store().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="out/"):
        keys = [entry["Key"] for entry in page.get("Contents", []) if not entry["Key"].endswith("/")]
        for key, (body, job) in zip(keys, each(lambda key: read(bucket, key), keys)):
            found[key[len("out/"):]] = (body, job)
    return found


def read(bucket, key):
    answer = store().get_object(Bucket=bucket, Key=key)
    return answer["Body"].read(), answer["Metadata"].get("oscar-job", "")


def each(do, items):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(do, items))


def check(bucket, expected):
    found = outputs(bucket)
    if set(found) != set(expected):
        lost, strange = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
        raise SystemExit("surprise in %s: lost %r, strange %r" % (bucket, lost, strange))
    for name, body in expected.items():
        if found[name][0] != body:
            raise SystemExit("surprise: %s/%s is %r" % (bucket, name, found[name][0]))
    jobs = {job for _, job in found.values()}
    if len(jobs) != len(found) or "" in jobs:
        raise SystemExit("surprise in %s: %d outputs of %d jobs" % (bucket, len(found), len(jobs)))


if sys.argv[1:] == ["check"]:
    for bucket in ("alone", "first"):
        mine = [number for number in range(count) if bucket_of(number) == bucket]
        check(bucket, {name_of(number): b"TEXT %d" % number for number in mine})
    check("second", {name_of(number): b"[TEXT %d]" % number for number in range(count) if bucket_of(number) == "first"})
else:
    each(upload, range(count))
print("all done", flush=True)
