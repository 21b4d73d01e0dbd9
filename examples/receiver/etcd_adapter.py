#!/usr/bin/env python3
"""The same service as receiver.py with etcd behind it. It keeps docs/RECEIVER.md.

    python3 examples/receiver/etcd_adapter.py --port 9090 --etcd http://127.0.0.1:2379

Position, operation and document are written by one etcd transaction, which compares the revision of the position that
was read: when anybody else was faster it does nothing, and the request is judged again. So any number of these may
run over one etcd. It speaks to etcd's JSON gateway, and needs Python 3.9 or newer and nothing else. What
fencegate.toml must say is at the head of receiver.py. Nothing is ever forgotten here; a service of your own will want
to forget (docs/RECEIVER.md).
"""

import argparse
import base64
import http.client
import json
import urllib.parse

import receiver
from receiver import Answer, outcome, said

# etcd takes 1.5 MiB in one request, and a document goes there in base64 twice.
receiver.MAX_DOCUMENT_BYTES = 512 << 10
ATTEMPTS = 200
SECONDS = 5


def packed(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


class Etcd:
    """Positions, operations and documents as keys of an etcd."""

    def __init__(self, url, prefix):
        self.address, self.prefix = urllib.parse.urlsplit(url), prefix

    def transaction(self, success, compare=()):
        """What etcd answers; it reads and writes at one revision, or does nothing where the comparison fails."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=SECONDS)
        try:
            body = json.dumps({"compare": list(compare), "success": success})
            connection.request("POST", "/v3/kv/txn", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError("etcd: %s" % error) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise ConnectionError("etcd: %s" % text.decode(errors="replace"))
        return json.loads(text)

    def fetched(self, *keys):
        """Value and revision of each key as they were at one moment; None and 0 where there is none."""
        ranges = [{"requestRange": {"key": packed(key)}} for key in keys]
        for response in self.transaction(ranges)["responses"]:
            pairs = response["response_range"].get("kvs")
            yield (json.loads(base64.b64decode(pairs[0]["value"])), pairs[0]["mod_revision"]) if pairs else (None, "0")

    def read(self, path):
        [(document, _)] = self.fetched(self.prefix + "document " + path)
        if document is None:
            return said(404, error="no such document")
        return Answer(200, base64.b64decode(document["body"]), document["content_type"])

    def decide(self, request):
        for _ in range(ATTEMPTS):
            answer = self.tried(request)
            if answer is not None:
                return answer
        raise ConnectionError("others were faster %d times" % ATTEMPTS)

    def tried(self, request):
        """None where somebody else changed the resource or the document meanwhile."""
        keys = [self.prefix + "resource " + request.resource, self.prefix + "document " + request.path,
                self.prefix + "operation " + json.dumps([request.resource, request.incarnation, request.operation])]
        (state, since), (document, written), (record, _) = self.fetched(*keys)
        state = state or {"position": [0, 0], "effects": 0}
        known = record and (record["digest"], Answer(record["status"], record["answer"].encode()))
        old = None if document is None else base64.b64decode(document["body"])
        answer, counts, new = outcome(request, tuple(state["position"]), known, old, state["effects"] + 1)
        if not counts:
            return answer
        state["position"], puts = request.position, []
        if new is not None:
            state["effects"] += 1
            document = {"content_type": request.content_type, "body": packed(new)}
            puts.append({"requestDeleteRange": {"key": packed(keys[1])}} if request.method == "DELETE"
                        else put(keys[1], document))
        if request.operation is not None:
            puts.append(put(keys[2], {
                "resource": request.resource, "operation": request.operation, "position": request.position,
                "effect": new is not None and state["effects"], "digest": request.digest, "status": answer.status,
                "answer": answer.body.decode()}))
        unchanged = [{"key": packed(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision}
                     for key, revision in [(keys[0], since), (keys[1], written)]]
        done = self.transaction([put(keys[0], state), *puts], unchanged)
        return answer if done.get("succeeded") else None


def put(key, value):
    return {"requestPut": {"key": packed(key), "value": packed(json.dumps(value))}}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A fence-aware service over etcd.")
    arguments.add_argument("--port", type=int, default=9090, help="0 takes one that is free")
    arguments.add_argument("--etcd", default="http://127.0.0.1:2379", help="where its clients reach it")
    arguments.add_argument("--prefix", default="", help="of its keys, for several services over one etcd")
    arguments = arguments.parse_args()
    receiver.serve(arguments.port, Etcd(arguments.etcd, arguments.prefix))
