"""The whole round trip of a user of the published client. Exits non-zero at the first surprise."""

import base64
import json
import os
import tempfile
import time

from oscar_python.client import Client

name = os.environ["OSCAR_TEST_PREFIX"] + "-upper"
options = {"cluster_id": "test-cluster", "endpoint": os.environ["OSCAR_TEST_ENDPOINT"], "ssl": False}
if "OSCAR_TEST_TOKEN" in os.environ:
    options["oidc_token"] = os.environ["OSCAR_TEST_TOKEN"]
else:
    options["user"], options["password"] = "oscar", os.environ["OSCAR_TEST_PASSWORD"]
client = Client(options)


def expect(condition, what):
    if not condition:
        raise SystemExit("surprise: " + what)


def ended(count):
    for _ in range(1200):
        jobs = client.list_jobs(name).json()["jobs"]
        if len(jobs) == count and all(job["status"] in ("Succeeded", "Failed") for job in jobs.values()):
            return jobs
        time.sleep(0.1)
    raise SystemExit("surprise: the jobs did not end: " + json.dumps(jobs))


script = '#!/bin/sh\ntr a-z A-Z < "$INPUT_FILE_PATH" > "$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH")"\necho done with it\n'
service = {
    "name": name,
    "image": "none",
    "script": script,
    "cpu": "0.1",
    "memory": "64Mi",
    "log_level": "CRITICAL",
    "input": [{"storage_provider": "minio.default", "path": name + "/in"}],
    "output": [{"storage_provider": "minio.default", "path": name + "/out"}],
}
expect(client.create_service(service).status_code == 201, "create")

# An upload starts a job, whose output is downloaded.
storage = client.create_storage_client()
with tempfile.TemporaryDirectory() as folder:
    source = os.path.join(folder, "words with blanks.txt")
    with open(source, "w") as text:
        text.write("hello from python")
    storage.upload_file("minio.default", source, name + "/in")
    jobs = ended(1)
    expect([job["status"] for job in jobs.values()] == ["Succeeded"], "the job: " + json.dumps(jobs))
    target = os.path.join(folder, "result")
    os.mkdir(target)
    storage.download_file("minio.default", target, name + "/out/words with blanks.txt")
    with open(os.path.join(target, "words with blanks.txt")) as text:
        expect(text.read() == "HELLO FROM PYTHON", "the output")
listed = storage.list_files_from_path("minio.default", name + "/out")
keys = [entry["Key"] for entry in listed["Contents"]]
expect("out/words with blanks.txt" in keys, "the list: " + repr(keys))

# Logs, as text.
job = next(iter(jobs))
expect(job.startswith(name + "-"), "the name of the job: " + job)
expect("done with it" in client.get_job_logs(name, job).text, "the log")

# A call, asynchronous and synchronous.
answer = client.run_service(name, input="asynchronously", async_call=True)
expect(answer.status_code == 201, "an asynchronous call: %s" % answer.status_code)
ended(2)
answer = client.run_service(name, input="synchronously")
expect(answer.status_code == 200, "a synchronous call: %s %s" % (answer.status_code, answer.text))
expect(base64.b64decode(answer.text).decode() == "SYNCHRONOUSLY", "the answer: " + answer.text)

# What the service is, in numbers and words.
expect(client.get_deployment_status(name).status_code == 200, "the deployment")
expect(client.get_service_metrics(name).status_code == 200, "metrics")
expect(name in [bucket["bucket_name"] for bucket in client.list_buckets().json()], "buckets")

# Away with it.
expect(client.remove_job(name, job).status_code == 204, "remove one job")
expect(client.remove_all_jobs(name).status_code == 204, "remove the jobs")
expect(client.list_jobs(name).json()["jobs"] == {}, "no jobs are left")
expect(client.remove_service(name).status_code == 204, "remove")
expect(name not in [bucket["bucket_name"] for bucket in client.list_buckets().json()], "its bucket went with it")

print("all done")
