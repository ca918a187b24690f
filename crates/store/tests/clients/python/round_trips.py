"""Whole round trips with the minio package, mc and rclone. Which one comes in S3_TEST."""

import hashlib
import io
import json
import os
import subprocess
import tempfile
import urllib.request
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

URL, KEY, SECRET = (os.environ[name] for name in ("S3_URL", "S3_KEY", "S3_SECRET"))
MIB = 1024 * 1024
BIG = os.urandom(20 * MIB)
FILES = {
    "small.txt": b"a small one\n",
    "empty": b"",
    "big.bin": BIG,
    "a b+c%20d.txt": b"odd",
    "ünï/日本/語 🦀.txt": b"letters",
    "deep/er/q=1&x;y.txt": b"signs",
}


def write_tree(folder):
    for name, body in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def sums(folder):
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def fetch(url, method="GET", data=None):
    with urllib.request.urlopen(urllib.request.Request(url, method=method, data=data)) as answer:
        return answer.read()


def same(found, wanted, what):
    assert found == wanted, f"{what}: {found!r} instead of {wanted!r}"


def run(*command, env=None, work=None, text=True):
    clean = {"HOME": str(work), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", **(env or {})}
    done = subprocess.run([str(part) for part in command], env=clean, cwd=work, capture_output=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout.decode(errors='replace')} {done.stderr.decode(errors='replace')}"
    return done.stdout.decode() if text else done.stdout


def minio_package(work):
    from minio import Minio
    from minio.commonconfig import REPLACE, ComposeSource, CopySource, Tags
    from minio.deleteobjects import DeleteObject
    from minio.error import S3Error

    client = Minio(urlsplit(URL).netloc, access_key=KEY, secret_key=SECRET, secure=False)
    client.make_bucket("by-package")
    assert client.bucket_exists("by-package") and not client.bucket_exists("not-there")
    same([bucket.name for bucket in client.list_buckets()], ["by-package"], "buckets")
    for name, body in FILES.items():
        client.put_object("by-package", name, io.BytesIO(body), len(body), content_type="a/b", metadata={"who": "me"})
    # Of unknown length: in parts.
    streamed = client.put_object("by-package", "streamed", io.BytesIO(BIG), -1, part_size=5 * MIB)
    assert streamed.etag.endswith("-4"), streamed.etag
    listed = {one.object_name: one.size for one in client.list_objects("by-package", recursive=True)}
    same(listed, {**{name: len(body) for name, body in FILES.items()}, "streamed": len(BIG)}, "objects")
    folded = [one.object_name for one in client.list_objects("by-package") if one.is_dir]
    same(sorted(folded), ["deep/", "ünï/"], "folders")
    for name, body in {**FILES, "streamed": BIG}.items():
        same(hashlib.sha256(client.get_object("by-package", name).read()).digest(), hashlib.sha256(body).digest(), name)
    stat = client.stat_object("by-package", "small.txt")
    same((stat.size, stat.content_type, stat.metadata["x-amz-meta-who"]), (12, "a/b", "me"), "stat")
    same(client.get_object("by-package", "big.bin", offset=5, length=10).read(), BIG[5:15], "range")
    client.copy_object("by-package", "copy", CopySource("by-package", "a b+c%20d.txt"), metadata={"who": "you"}, metadata_directive=REPLACE)
    same(client.stat_object("by-package", "copy").metadata["x-amz-meta-who"], "you", "metadata of the copy")
    client.compose_object("by-package", "composed", [ComposeSource("by-package", "big.bin"), ComposeSource("by-package", "small.txt")])
    same(client.get_object("by-package", "composed").read(), BIG + FILES["small.txt"], "composed")
    tags = Tags.new_object_tags()
    tags["colour"] = "dark red"
    client.set_object_tags("by-package", "copy", tags)
    same(dict(client.get_object_tags("by-package", "copy")), {"colour": "dark red"}, "tags")
    client.delete_object_tags("by-package", "copy")
    tags = Tags.new_bucket_tags()
    tags["team"] = "one"
    client.set_bucket_tags("by-package", tags)
    same(dict(client.get_bucket_tags("by-package")), {"team": "one"}, "tags of the bucket")
    client.delete_bucket_tags("by-package")
    same(client.get_bucket_tags("by-package"), None, "no tags of the bucket")
    fetch(client.presigned_put_object("by-package", "ünï/by address", expires=timedelta(minutes=5)), "PUT", b"sent")
    same(fetch(client.presigned_get_object("by-package", "ünï/by address", expires=timedelta(minutes=5))), b"sent", "address")
    try:
        client.remove_bucket("by-package")
        raise AssertionError("a full bucket was removed")
    except S3Error as error:
        same(error.code, "BucketNotEmpty", "full")
    names = [one.object_name for one in client.list_objects("by-package", recursive=True)]
    same(list(client.remove_objects("by-package", [DeleteObject(name) for name in names])), [], "errors of deleting")
    client.remove_bucket("by-package")


def mc(work):
    address = urlsplit(URL).netloc
    env = {"MC_HOST_store": f"http://{KEY}:{SECRET}@{address}"}
    call = lambda *arguments, text=True: run(os.environ["MC"], "--quiet", *arguments, env=env, work=work, text=text)
    lines = lambda *arguments: [json.loads(line) for line in call("--json", *arguments).splitlines()]
    tree, back = work / "tree", work / "back"
    tree.mkdir()
    write_tree(tree)
    call("mb", "store/by-mc")
    call("cp", "--attr", "who=me;Content-Type=a/b", "tree/small.txt", "store/by-mc/small.txt")
    call("cp", "tree/big.bin", "store/by-mc/big.bin")
    call("cp", "tree/a b+c%20d.txt", "store/by-mc/a b+c%20d.txt")
    stat = lines("stat", "store/by-mc/small.txt")[0]
    same((stat["size"], stat["metadata"]["Content-Type"], stat["metadata"]["X-Amz-Meta-Who"]), (12, "a/b", "me"), "stat")
    big = lines("stat", "store/by-mc/big.bin")[0]
    assert big["size"] == len(BIG) and "-" in big["etag"], big
    same(sorted(one["key"] for one in lines("ls", "--recursive", "store/by-mc")), ["a b+c%20d.txt", "big.bin", "small.txt"], "list")
    same(call("cat", "store/by-mc/a b+c%20d.txt", text=False), b"odd", "cat")
    same(call("cat", "--offset", str(20 * MIB - 9), "store/by-mc/big.bin", text=False), BIG[-9:], "the end")
    call("cp", "store/by-mc/big.bin", "store/by-mc/copy of big")
    same(hashlib.sha256(call("cat", "store/by-mc/copy of big", text=False)).digest(), hashlib.sha256(BIG).digest(), "copy")
    call("mirror", "tree", "store/by-mc/mirror")
    call("mirror", "store/by-mc/mirror", "back")
    same(sums(back), sums(tree), "both ways")
    same(lines("diff", "tree", "store/by-mc/mirror"), [], "diff")
    (tree / "empty").unlink()
    (tree / "small.txt").write_bytes(b"another")
    call("mirror", "--overwrite", "--remove", "tree", "store/by-mc/mirror")
    call("mirror", "--overwrite", "--remove", "store/by-mc/mirror", "back")
    same(sums(back), sums(tree), "again")
    call("tag", "set", "store/by-mc/small.txt", "colour=red")
    same(lines("tag", "list", "store/by-mc/small.txt")[0]["tagset"], {"colour": "red"}, "tags")
    shared = lines("share", "download", "--expire", "5m", "store/by-mc/a b+c%20d.txt")[0]
    same(fetch(shared["share"]), b"odd", "shared")
    call("rm", "store/by-mc/small.txt")
    call("rb", "--force", "store/by-mc")
    assert "by-mc/" not in [one["key"] for one in lines("ls", "store")]


def rclone(work):
    settings = {"TYPE": "s3", "PROVIDER": "Minio", "ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "ENDPOINT": URL, "REGION": "us-east-1", "CHUNK_SIZE": "5Mi", "UPLOAD_CUTOFF": "6Mi", "COPY_CUTOFF": "8Mi"}
    env = {f"RCLONE_CONFIG_STORE_{name}": value for name, value in settings.items()}
    env["RCLONE_CONFIG"] = str(work / "none.conf")
    call = lambda *arguments, text=True: run(os.environ["RCLONE"], *arguments, env=env, work=work, text=text)
    tree, back = work / "tree", work / "back"
    tree.mkdir()
    write_tree(tree)
    call("mkdir", "store:by-rclone")
    call("copyto", "--header-upload", "x-amz-meta-who: me", "tree/small.txt", "store:by-rclone/one/small.txt")
    stat = json.loads(call("lsjson", "--stat", "--hash", "store:by-rclone/one/small.txt"))
    same((stat["Size"], stat["Hashes"]["md5"]), (12, hashlib.md5(FILES["small.txt"]).hexdigest()), "stat")
    call("sync", "--checksum", "tree", "store:by-rclone/tree")
    listed = {one["Path"]: one["Size"] for one in json.loads(call("lsjson", "-R", "--files-only", "store:by-rclone/tree"))}
    same(listed, {name: len(body) for name, body in FILES.items()}, "list")
    call("check", "--download", "tree", "store:by-rclone/tree")
    same(call("cat", "--offset", "5", "--count", "10", "store:by-rclone/tree/big.bin", text=False), BIG[5:15], "range")
    call("sync", "--checksum", "store:by-rclone/tree", "back")
    same(sums(back), sums(tree), "both ways")
    (tree / "empty").unlink()
    (tree / "small.txt").write_bytes(b"another")
    (tree / "new +%.txt").write_bytes(b"new")
    call("sync", "--checksum", "tree", "store:by-rclone/tree")
    call("sync", "--checksum", "store:by-rclone/tree", "back")
    same(sums(back), sums(tree), "again")
    # Larger than the limit above: a copy in parts.
    call("copyto", "store:by-rclone/tree/big.bin", "store:by-rclone/copy of big")
    same(hashlib.sha256(call("cat", "store:by-rclone/copy of big", text=False)).digest(), hashlib.sha256(BIG).digest(), "copy")
    call("moveto", "store:by-rclone/tree/ünï", "store:by-rclone/moved")
    same(call("cat", "store:by-rclone/moved/日本/語 🦀.txt"), "letters", "moved")
    link = call("link", "--expire", "5m", "store:by-rclone/one/small.txt").strip()
    same(fetch(link), FILES["small.txt"], "link")
    call("deletefile", "store:by-rclone/one/small.txt")
    call("purge", "store:by-rclone")
    same(call("lsf", "store:"), "", "nothing is left")


name = os.environ["S3_TEST"]
with tempfile.TemporaryDirectory() as folder:
    globals()[name](Path(folder))
print(name, "done")
