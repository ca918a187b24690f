"""What a user of the published client does with services. Exits non-zero at the first surprise."""

import json
import os
import tempfile

import requests
from oscar_python.client import Client

prefix = os.environ["OSCAR_TEST_PREFIX"]
options = {"cluster_id": "test-cluster", "endpoint": os.environ["OSCAR_TEST_ENDPOINT"], "ssl": False}
if "OSCAR_TEST_TOKEN" in os.environ:
    options["oidc_token"] = os.environ["OSCAR_TEST_TOKEN"]
else:
    options["user"], options["password"] = "oscar", os.environ["OSCAR_TEST_PASSWORD"]
client = Client(options)


def expect(condition, what):
    if not condition:
        raise SystemExit("surprise: " + what)


expect(client.health_check().text == "Ok", "health")
expect(client.get_cluster_info().json()["version"].startswith("v"), "info")
config = client.get_cluster_config().json()
expect(isinstance(config["config"]["oidc_groups"], list), "config")
expect({"endpoint", "region", "verify", "access_key", "secret_key"} <= set(config["minio_provider"]), "config keys")
expect("cluster" in client.get_cluster_status().json(), "status")

# From a definition file, as the documentation shows it.
first, second = prefix + "-file", prefix + "-dict"
with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "script.sh"), "w") as script:
        script.write("#!/bin/sh\necho hello\n")
    definition = os.path.join(folder, "service.yaml")
    with open(definition, "w") as fdl:
        fdl.write(
            "functions:\n  oscar:\n  - test-cluster:\n      name: %s\n      image: ghcr.io/grycap/cowsay\n"
            "      cpu: 0.5\n      memory: 512Mi\n      script: script.sh\n      environment:\n        Variables:\n"
            "          INPUT_TYPE: json\n      expose:\n        api_port: 5000\n" % first
        )
    expect(client.create_service(definition).status_code == 201, "create from a file")
    try:
        client.create_service(definition)
        raise SystemExit("surprise: a second create succeeded")
    except ValueError as error:
        expect("already present" in str(error), "second create")

# From a dictionary.
service = {
    "name": second,
    "image": "ghcr.io/grycap/cowsay",
    "script": "#!/bin/sh\ncowsay\n",
    "cpu": "0.2",
    "memory": "256Mi",
    "log_level": "CRITICAL",
    "environment": {"secrets": {"PASSWORD": "secret-value"}},
    "input": [{"storage_provider": "minio", "path": second + "/in"}],
    "output": [{"storage_provider": "minio.default", "path": "out"}],
}
expect(client.create_service(service).status_code == 201, "create from a dictionary")

names = [entry["name"] for entry in client.list_services().json()]
expect(first in names and second in names, "list: " + repr(names))
read = client.get_service(first).json()
expect(read["cpu"] == "0.5" and read["expose"]["api_port"] == [5000], "read: " + json.dumps(read))
expect(read["environment"]["variables"] == {"INPUT_TYPE": "json"}, "variables")
expect(len(read["token"]) == 64, "token")

read = client.get_service(second).json()
expect(read["output"][0]["path"] == second + "/out", "normalised path")
expect(read["environment"]["secrets"] == {"PASSWORD": ""}, "secrets are blank")
read["image"] = "ghcr.io/grycap/imagemagick"
expect(client.update_service(second, read).status_code == 204, "update")
again = client.get_service(second).json()
expect(again["image"] == "ghcr.io/grycap/imagemagick" and again["token"] == read["token"], "after the update")

try:
    client.create_service({"name": "Not A Name", "image": "", "script": ""})
    raise SystemExit("surprise: a bad definition was taken")
except requests.exceptions.HTTPError as error:
    expect(error.response.status_code == 400 and "name" in error.response.text, "a bad definition")

for name in (first, second):
    expect(client.remove_service(name).status_code == 204, "remove")
names = [entry["name"] for entry in client.list_services().json()]
expect(first not in names and second not in names, "removed")
# A federation of services on this one manager, under ids that are only names for it, as OSCAR's
# own suite does.
head, worker = prefix + "-head", prefix + "-worker"
endpoint = os.environ["OSCAR_TEST_ENDPOINT"]
expect(client.create_service(dict(service, name=worker, environment={})).status_code == 201, "a worker")
federated = dict(service, name=head, cluster_id="id-zero")
federated["environment"] = {"secrets": {"refresh_token": "dummy-token"}}
federated["federation"] = {"group_id": head, "topology": "star", "delegation": "static", "members": []}
expect(client.create_service(federated).status_code == 201, "a head without members")
shown = client.get_federation(head).json()
expect(shown["topology"] == "star" and shown["members"] is None, "no members: " + json.dumps(shown))
member = {"type": "oscar", "cluster_id": "id-one", "service_name": worker, "priority": 1}
answer = client.add_federation_members(head, [member], clusters={"id-one": {"endpoint": endpoint, "ssl_verify": False}})
expect(answer.status_code == 200, "add: " + answer.text)
shown = client.get_federation(head).json()
expect([entry["service_name"] for entry in shown["members"]] == [worker], "added: " + json.dumps(shown))
annotations = client.get_service(worker).json()["annotations"]
expect(annotations.get("oscar.grycap/federation-worker") == "true", "the worker is one: " + json.dumps(annotations))
answer = client.update_federation_members(head, [member], [dict(member, priority=5)])
expect(answer.json()["members"][0]["priority"] == 5, "update: " + answer.text)
answer = client.remove_federation_members(head, [member], delete=False)
expect(answer.status_code == 200 and answer.json()["members"] is None, "remove: " + answer.text)
annotations = client.get_service(worker).json()["annotations"]
expect("oscar.grycap/federation-worker" not in annotations, "the worker is plain again: " + json.dumps(annotations))
for name in (head, worker):
    expect(client.remove_service(name).status_code == 204, "remove " + name)

print("all done")
