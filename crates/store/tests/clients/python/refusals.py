"""Who is not let in, addresses that were signed before, and browsers."""

import datetime
import re
from urllib.parse import urlsplit

from recorder import call, mk_client, note, quietly, s3, send, sign, signed

BODY = b"to be signed for"


def strangers():
    quietly(s3.create_bucket, Bucket="closed")
    quietly(s3.put_object, Bucket="closed", Key="k", Body=BODY)
    for verb, path in (("GET", "/closed/k"), ("HEAD", "/closed/k"), ("PUT", "/closed/k"), ("DELETE", "/closed/k"), ("GET", "/closed?list-type=2"), ("GET", "/closed/none"), ("GET", "/not-there/k"), ("GET", "/"), ("PUT", "/new-bucket")):
        send(f"anonymous.{verb}.{path}", verb, path, body=BODY if path == "/closed/k" and verb == "PUT" else None)
    wrong = mk_client(secret="not the secret key")
    unknown = mk_client(key="nobody-knows-me")
    for name, client in (("wrong-secret", wrong), ("unknown-key", unknown)):
        call(f"{name}.get", client.get_object, Bucket="closed", Key="k")
        call(f"{name}.head", client.head_object, Bucket="closed", Key="k")
        call(f"{name}.put", client.put_object, Bucket="closed", Key="k", Body=BODY)
        call(f"{name}.list", client.list_objects_v2, Bucket="closed")
        call(f"{name}.buckets", client.list_buckets)
        call(f"{name}.missing-bucket", client.get_object, Bucket="not-there", Key="k")
    headers = sign("GET", "/closed/k")
    send("signature.other-path", "GET", "/closed/other", headers)
    send("signature.other-verb", "DELETE", "/closed/k", headers)
    send("signature.other-query", "GET", "/closed/k?partNumber=1", headers)
    send("signature.added-header", "PUT", "/closed/added", {**sign("PUT", "/closed/added", body=BODY), "x-amz-meta-a": "b"}, BODY)
    send("signature.changed", "GET", "/closed/k", {**headers, "Authorization": headers["Authorization"][:-1] + ("0" if headers["Authorization"][-1] != "0" else "1")})
    send("signature.nonsense", "GET", "/closed/k", {"Authorization": "nonsense"})
    send("signature.half", "GET", "/closed/k", {**headers, "Authorization": "AWS4-HMAC-SHA256 Credential=a"})
    send("signature.other-algorithm", "GET", "/closed/k", {**headers, "Authorization": headers["Authorization"].replace("SHA256", "SHA512", 1)})
    send("signature.basic", "GET", "/closed/k", {"Authorization": "Basic YTpi"})
    send("signature.no-date", "GET", "/closed/k", {name: value for name, value in headers.items() if name.lower() != "x-amz-date"})
    old = re.sub("[0-9]{8}T[0-9]{6}Z", "20200101T000000Z", headers["X-Amz-Date"])
    send("signature.old-date", "GET", "/closed/k", {**headers, "X-Amz-Date": old})
    signed("signature.other-region", "GET", "/closed/k", region="eu-west-3")
    call("other-region", mk_client(region="eu-west-3").get_object, Bucket="closed", Key="k")


def odd_requests():
    for verb, path in (("POST", "/closed/k"), ("POST", "/closed"), ("PATCH", "/closed/k"), ("DELETE", "/"), ("PUT", "/"), ("POST", "/"), ("HEAD", "/")):
        signed(f"verb.{verb}.{path}", verb, path)
    signed("query.unknown", "GET", "/closed/k?unknown=1")
    signed("query.unknown-bucket", "GET", "/closed?unknown")


def addresses():
    here = {"Bucket": "closed", "Key": "a b/ä+%"}

    def address(operation="get_object", seconds=60, client=s3, **parameters):
        url = urlsplit(client.generate_presigned_url(operation, Params={**here, **parameters}, ExpiresIn=seconds))
        return f"{url.path}?{url.query}"

    send("address.put", "PUT", address("put_object"), body=BODY)
    get = address()
    send("address.get", "GET", get)
    send("address.get-again", "GET", get)
    send("address.head-with-get", "HEAD", get)
    send("address.head", "HEAD", address("head_object"))
    send("address.put-with-get", "PUT", get, body=b"no")
    send("address.delete-with-get", "DELETE", get)
    send("address.range", "GET", get, {"Range": "bytes=2-5"})
    send("address.other-key", "GET", get.replace("a%20b", "a%20c"))
    send("address.longer", "GET", get.replace("X-Amz-Expires=60", "X-Amz-Expires=6000"))
    send("address.no-expiry", "GET", get.replace("X-Amz-Expires=60&", ""))
    send("address.more-query", "GET", get + "&response-content-type=text%2Fhtml")
    send("address.copy-source", "PUT", address("put_object"), {"x-amz-copy-source": "closed/k"})
    send("address.metadata", "PUT", address("put_object"), {"x-amz-meta-a": "b"}, b"1")
    send("address.signed-metadata", "PUT", address("put_object", Metadata={"a": "b"}), {"x-amz-meta-a": "b"}, BODY)
    send("address.signed-metadata-missing", "PUT", address("put_object", Metadata={"a": "b"}), body=BODY)
    send("address.signed-type", "PUT", address("put_object", ContentType="x/y"), {"Content-Type": "x/y"}, BODY)
    send("address.signed-type-other", "PUT", address("put_object", ContentType="x/y"), {"Content-Type": "z/y"}, BODY)
    send("address.overrides", "GET", address(ResponseContentType="x/z", ResponseContentDisposition="attachment"))
    send("address.too-long", "GET", address(seconds=604801))
    send("address.longest", "GET", address(seconds=604800))
    send("address.wrong-secret", "GET", address(client=mk_client(secret="wrong")))
    send("address.unknown-key", "GET", address(client=mk_client(key="nobody")))
    # What was good an hour ago: only its time is told otherwise, and the signature is right for it.
    past = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    send("address.expired", "GET", presigned_at(past, "/closed/k"))
    future = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
    send("address.future", "GET", presigned_at(future, "/closed/k"))
    send("address.removed", "DELETE", address("delete_object"))
    send("address.gone", "GET", get)


def presigned_at(when, path):
    import botocore.auth as auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from recorder import KEY, SECRET, URL

    real = auth.get_current_datetime
    auth.get_current_datetime = lambda remove_tzinfo=True: when.replace(tzinfo=None) if remove_tzinfo else when
    try:
        request = AWSRequest(method="GET", url=URL + path)
        auth.S3SigV4QueryAuth(Credentials(KEY, SECRET), "s3", "us-east-1", expires=60).add_auth(request)
    finally:
        auth.get_current_datetime = real
    url = urlsplit(request.url)
    return f"{url.path}?{url.query}"


def browsers():
    origin = {"Origin": "https://console.example.org"}
    asked = {**origin, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,x-amz-date"}
    allowed("cors.preflight", "OPTIONS", "/closed/k", asked)
    allowed("cors.preflight-bucket", "OPTIONS", "/closed", {**origin, "Access-Control-Request-Method": "GET"})
    allowed("cors.preflight-missing", "OPTIONS", "/not-there/k", asked)
    allowed("cors.refused", "GET", "/closed/k", origin)
    headers = sign("GET", "/closed/k")
    allowed("cors.get", "GET", "/closed/k", {**headers, **origin})
    allowed("cors.no-origin", "GET", "/closed/k", headers)


def allowed(label, verb, path, headers):
    """What the answer lets a page do, however it says so."""
    found = send(label, verb, path, headers).headers
    words = lambda name: {word.strip().lower() for word in found.get(name, "").split(",") if word.strip()}
    note(f"{label}.origin", bool(words("access-control-allow-origin") & {"*", headers.get("Origin", "").lower()}))
    if verb == "OPTIONS":
        note(f"{label}.method", headers["Access-Control-Request-Method"].lower() in words("access-control-allow-methods"))
        wanted = {word for word in headers.get("Access-Control-Request-Headers", "").split(",") if word}
        note(f"{label}.asked-headers", wanted <= words("access-control-allow-headers"))
    elif "Origin" in headers:
        note(f"{label}.sees-etag", "etag" in words("access-control-expose-headers"))


SECTIONS = [strangers, odd_requests, addresses, browsers]
