#!/usr/bin/env python3
"""A fence-aware service: documents in SQLite that no stale worker can overwrite. It keeps docs/RECEIVER.md.

    python3 examples/receiver/receiver.py --port 9090 --database receiver.db

To put it behind fencegate, name it in fencegate.toml and let nobody else reach its port:

    [namespaces.orders]
    store = { http = "http://127.0.0.1:9090/", class = "fence_aware" }

A worker then writes to /fenced/orders/NAME. `fencegate probe --class fence_aware http://127.0.0.1:9090/` holds this
service, or yours, against the contract. Here PUT replaces a document, POST and PATCH append to it, so that a write that
was applied twice would show, and DELETE removes it. Needs Python 3.9 or newer and nothing else.
"""

import argparse
import hashlib
import json
import re
import sqlite3
import threading
import time
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_DOCUMENT_BYTES = 8 << 20
MAX_DISCARDED_BYTES = 64 << 20
KEPT_SECONDS = 30 * 24 * 3600  # as docs/RECEIVER.md recommends
COUNTER = r"(0|[1-9][0-9]{0,18})"

Request = namedtuple("Request", "method path content_type body resource position sequence incarnation operation digest")
Answer = namedtuple("Answer", "status body content_type held", defaults=("application/json", None))
Known = namedtuple("Known", "digest answer")


class Refused(Exception):
    """By what the request itself says, whatever is stored: it changes nothing, and nobody remembers it."""


def said(status, held=None, **members):
    return Answer(status, json.dumps(members).encode(), held=held)


def judge(request, held, known):
    """The contract's order of checks. None means: raise the position, apply the effect, save the answer."""
    if known is not None:  # before the position: an owner asks for its lost answer even when it has been superseded
        return known.answer if known.digest == request.digest else said(422, error="this id had another content")
    if request.position < held:  # not remembered under the id: it may come again under a newer position
        return said(412, "%d.%d" % held, error="a higher position was seen")
    return None


def changed(request, old, effect):
    """The answer to an admitted write, and the document behind it; None where nothing changes."""
    if request.method == "DELETE":
        return (said(404, error="nothing to delete"), None) if old is None else (said(200, effect=effect), b"")
    new = request.body if request.method == "PUT" or old is None else old + request.body
    if len(new) > MAX_DOCUMENT_BYTES:
        return said(413, error="the document becomes too large"), None
    return said(201 if old is None else 200, effect=effect), new


class Sqlite:
    """Positions, operations and documents in one file, so that one transaction holds all three."""

    SCHEMA = """
    CREATE TABLE IF NOT EXISTS resources (
        resource TEXT PRIMARY KEY, epoch INTEGER, token INTEGER, effects INTEGER);  -- never deleted from
    CREATE TABLE IF NOT EXISTS operations (
        resource TEXT, incarnation TEXT, operation TEXT, digest TEXT, epoch INTEGER, token INTEGER, sequence TEXT,
        effect INTEGER, status INTEGER, answer BLOB, saved_at INTEGER, PRIMARY KEY (resource, incarnation, operation));
    CREATE TABLE IF NOT EXISTS documents (path TEXT PRIMARY KEY, content_type TEXT, body BLOB);
    """

    def __init__(self, path):
        self.path, self.local = path, threading.local()
        self.db().executescript("PRAGMA journal_mode = WAL;" + self.SCHEMA)

    def db(self):
        if not hasattr(self.local, "db"):
            self.local.db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            self.local.db.execute("PRAGMA synchronous = FULL")  # a commit is on disk before it is answered
        return self.local.db

    def read(self, path):
        row = self.db().execute("SELECT body, content_type FROM documents WHERE path = ?", (path,)).fetchone()
        return Answer(200, *row) if row else said(404, error="no such document")

    def decide(self, request):
        db = self.db()
        db.execute("BEGIN IMMEDIATE")  # from here on nobody else changes what is compared
        try:
            answer = self.decided(db, request)
            db.execute("COMMIT")
            return answer
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def decided(self, db, request):
        row = db.execute("SELECT epoch, token, effects FROM resources WHERE resource = ?",
                         (request.resource,)).fetchone()
        *held, effects = row or (0, 0, 0)
        key = (request.resource, request.incarnation, request.operation)
        row = db.execute("SELECT digest, status, answer FROM operations"
                         " WHERE resource = ? AND incarnation = ? AND operation = ?", key).fetchone()
        verdict = judge(request, tuple(held), row and Known(row[0], Answer(*row[1:])))
        if verdict is not None:
            return verdict
        answer, new = said(200), None
        if request.operation is not None:
            row = db.execute("SELECT body FROM documents WHERE path = ?", (request.path,)).fetchone()
            answer, new = changed(request, row and row[0], effects + 1)
            # A refusal that depends on what is stored is an outcome too: a late copy must not fare better.
            db.execute("INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (
                *key, request.digest, *request.position, request.sequence, new is not None and effects + 1,
                answer.status, answer.body, int(time.time())))
        if new is not None:
            effects += 1
            db.execute("DELETE FROM documents WHERE path = ?", (request.path,))
            if request.method != "DELETE":
                db.execute("INSERT INTO documents VALUES (?, ?, ?)", (request.path, request.content_type, new))
        db.execute("REPLACE INTO resources VALUES (?, ?, ?, ?)", (request.resource, *request.position, effects))
        # Of the position that is held nothing is forgotten: a late copy of it would be applied again.
        db.execute("DELETE FROM operations WHERE resource = ? AND saved_at < ? AND (epoch, token) < (?, ?)",
                   (request.resource, int(time.time()) - KEPT_SECONDS, *request.position))
        return answer


class Handler(BaseHTTPRequestHandler):
    """HTTP around a store: parses, asks, answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self):
        self.answer(lambda body: self.server.store.read(self.path))

    def do_PUT(self):
        self.answer(lambda body: self.server.store.decide(self.fenced(body)))

    do_HEAD = do_GET
    do_POST = do_PATCH = do_DELETE = do_PUT

    def one(self, name, form, missing=None):
        """The one header of this name."""
        values = self.headers.get_all(name) or []
        if not values and missing is not None:
            raise Refused(missing, name + " is missing")
        if len(values) > 1 or (values and not re.fullmatch(form, values[0])):
            raise Refused(400, name + " stands more than once, or is malformed")
        return values[0] if values else None

    def body(self):
        if "Transfer-Encoding" in self.headers:
            raise Refused(411, "send a Content-Length")
        length = int(self.one("Content-Length", COUNTER) or 0)
        if length > MAX_DOCUMENT_BYTES:
            # Closing on somebody who still sends would cut the answer off, and a cut answer is no refusal.
            for at in range(0, length if length <= MAX_DISCARDED_BYTES else 0, 1 << 16):
                self.rfile.read(min(1 << 16, length - at))
            raise Refused(413, "at most %d bytes" % MAX_DOCUMENT_BYTES)
        body = self.rfile.read(length)
        if len(body) < length:
            raise Refused(400, "the body was cut off")
        self.whole = True
        return body

    def fenced(self, body):
        position = self.one("Fencing-Position", COUNTER + r"\.([1-9][0-9]{0,18})", missing=428)
        position = tuple(map(int, position.split(".")))
        if max(position) >= 1 << 63:
            raise Refused(400, "Fencing-Position is out of range")
        resource = self.one("Fencing-Resource", r"[^\x00-\x20\x7f]{1,2048}", missing=428)
        if self.one("Fencing-Advance", "true"):
            if body or self.command != "POST":
                raise Refused(400, "an advance is a POST without a body")
            return Request("POST", self.path, None, b"", resource, position, None, None, None, None)
        operation = self.one("Fencing-Operation", r"[\x21-\x7e]{1,255}", missing=428)
        incarnation = self.one("Fencing-Incarnation", COUNTER, missing=428)
        content_type = self.one("Content-Type", r"[^\x00-\x1f\x7f]*") or "application/octet-stream"
        content = [self.command, self.path, content_type, hashlib.sha256(body).hexdigest()]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        sequence = self.one("Fencing-Sequence", COUNTER)
        return Request(self.command, self.path, content_type, body, resource, position, sequence, incarnation,
                       operation, digest)

    def answer(self, act):
        self.whole = False
        try:
            answer = act(self.body())
        except Refused as refused:
            answer = said(refused.args[0], error=refused.args[1])
        except (sqlite3.Error, ConnectionError) as error:  # of the store: the effect may have happened
            answer = said(503, error=str(error))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.held is not None:
            self.send_header("Fencing-Position", answer.held)
        if not self.whole:  # what is left of the body must not be read as the next request
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, *_):
        """Not a line for every request."""


def serve(port, store):
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.store = store
    print("listening on http://127.0.0.1:%d/" % server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A fence-aware service over SQLite.")
    arguments.add_argument("--port", type=int, default=9090, help="0 takes one that is free")
    arguments.add_argument("--database", default="receiver.db")
    arguments = arguments.parse_args()
    serve(arguments.port, Sqlite(arguments.database))
