#!/usr/bin/env python3
"""A fence-aware service that keeps docs/RECEIVER.md: documents in SQLite that no stale worker can overwrite. PUT
replaces one, POST and PATCH append to it, so that a write applied twice would show. Only the gateway may reach it.
"""
import argparse, hashlib, json, re, sqlite3, threading, time
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_DOCUMENT_BYTES, MAX_BODY_BYTES, KEPT_SECONDS = 8 << 20, 16 << 20, 30 * 24 * 3600
COUNTER = r"(0|[1-9][0-9]{0,18})"
FORMS = {"Fencing-Resource": r"[^\x00-\x20\x7f]{1,2048}", "Fencing-Position": COUNTER + r"\.[1-9][0-9]{0,18}",
         "Fencing-Operation": r"[\x21-\x7e]{1,255}", "Fencing-Incarnation": COUNTER, "Fencing-Advance": "true",
         "Content-Type": r"[^\x00-\x1f\x7f]*", "Fencing-Sequence": COUNTER, "Content-Length": COUNTER}
SCHEMA = """PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;  -- a commit is on disk before it is answered
CREATE TABLE IF NOT EXISTS resources (resource PRIMARY KEY, epoch, token, effects);
CREATE TABLE IF NOT EXISTS operations (resource, incarnation, operation, digest, epoch, token, effect, status, answer,
                                       saved_at, PRIMARY KEY (resource, incarnation, operation));
CREATE TABLE IF NOT EXISTS documents (path PRIMARY KEY, content_type, body);"""
Request = namedtuple("Request", "method path content_type body resource position incarnation operation digest")
Answer = namedtuple("Answer", "status body content_type held", defaults=("application/json", None))

class Refused(Exception):
    """By what the request itself says, whatever is stored: it changes nothing, and nobody remembers it."""

def said(status, held=None, **members):
    return Answer(status, json.dumps(members).encode(), held=held)

def outcome(request, held, known, old, effect):
    """The contract's checks: the answer, whether it counts (raises the position, is saved), and what is then stored."""
    if known is not None:  # before the position: an owner asks for its lost answer even when it has been superseded
        return known[1] if known[0] == request.digest else said(422, error="this id had another content"), False, None
    if request.position < held:  # not remembered under the id: it may come again under a newer position
        return said(412, "%d.%d" % held, error="a higher position was seen"), False, None
    if request.operation is None:  # an advance
        return said(200), True, None
    if request.method == "DELETE" and old is None:  # what depends on the store counts: a late copy must not fare better
        return said(404, error="nothing to delete"), True, None
    new = request.body if request.method == "PUT" or old is None else old + request.body
    if len(new) > MAX_DOCUMENT_BYTES:
        return said(413, error="the document is too large"), True, None
    return said(201 if old is None else 200, effect=effect), True, new

class Sqlite:
    """Positions, operations and documents in one file, so that one transaction holds all three."""
    def __init__(self, path):
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self.db.executescript(SCHEMA)

    def row(self, sql, *values):
        return self.db.execute(sql, values).fetchone()

    def read(self, path):
        with self.lock:
            row = self.row("SELECT body, content_type FROM documents WHERE path = ? AND body IS NOT NULL", path)
        return Answer(200, *row) if row else said(404, error="no such document")

    def decide(self, request):
        key, now = (request.resource, request.incarnation, request.operation), int(time.time())
        with self.lock, self.db:  # commits at its end, and rolls back when anything fails
            self.row("BEGIN IMMEDIATE")  # from here on nobody else changes what is compared
            held = self.row("SELECT epoch, token, effects FROM resources WHERE resource = ?", key[0]) or (0, 0, 0)
            known = self.row("SELECT digest, status, answer FROM operations"
                             " WHERE resource = ? AND incarnation = ? AND operation = ?", *key)
            old = self.row("SELECT body FROM documents WHERE path = ?", request.path)
            known, old, effects = known and (known[0], Answer(*known[1:])), old and old[0], held[2]
            answer, counts, new = outcome(request, held[:2], known, old, effects + 1)
            if not counts:
                return answer
            effect = 0 if new is None else effects + 1
            if request.operation is not None:
                self.row("INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *key, request.digest,
                         *request.position, effect, answer.status, answer.body, now)
            if effect:
                stored = None if request.method == "DELETE" else new
                self.row("REPLACE INTO documents VALUES (?, ?, ?)", request.path, request.content_type, stored)
            self.row("REPLACE INTO resources VALUES (?, ?, ?, ?)", key[0], *request.position, effect or effects)
            # Of the position that is held nothing is forgotten: a late copy of it would be applied again.
            self.row("DELETE FROM operations WHERE resource = ? AND saved_at < ? AND (epoch, token) < (?, ?)", key[0],
                     now - KEPT_SECONDS, *request.position)
        return answer

class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, timeout = "HTTP/1.1", True, 60
    log_message = lambda *_: None  # not a line for every request
    def one(self, name):
        values = self.headers.get_all(name) or [None]
        if len(values) > 1 or (values[0] is not None and not re.fullmatch(FORMS[name], values[0])):
            raise Refused(400, name + " stands more than once, or is malformed")
        return values[0]

    def fenced(self, body):
        values = {name: self.one(name) for name in FORMS}
        resource, position, operation, incarnation, advance, kind, *_ = values.values()
        missing = [name for name in list(FORMS)[:2 if advance else 4] if values[name] is None]
        if missing:
            raise Refused(428, ", ".join(missing) + " is missing")
        position = tuple(map(int, position.split(".")))
        if max(position) >= 1 << 63 or advance and (body or self.command != "POST"):
            raise Refused(400, "Fencing-Position is out of range, or an advance is not a POST without a body")
        kind, operation = kind or "application/octet-stream", None if advance else operation
        what = json.dumps([self.command, self.path, kind, hashlib.sha256(body).hexdigest()])
        return Request(self.command, self.path, kind, body, resource, position, incarnation, operation, what)

    def do_GET(self):
        whole, store = False, self.store
        try:
            length = int(self.one("Content-Length") or 0)
            if "Transfer-Encoding" in self.headers or length > MAX_BODY_BYTES:
                raise Refused(413 if length else 411, "send a Content-Length of at most %d" % MAX_BODY_BYTES)
            body = self.rfile.read(length)
            if len(body) < length:
                raise Refused(400, "the body was cut off")
            whole = True
            answer = store.read(self.path) if self.command in ("GET", "HEAD") else store.decide(self.fenced(body))
        except Refused as refused:
            answer = said(refused.args[0], error=refused.args[1])
        except (sqlite3.Error, ConnectionError) as error:  # of the store: the effect may have happened
            answer = said(503, error=str(error))
        self.send_response(answer.status)
        for name, value in {"Content-Type": answer.content_type, "Content-Length": len(answer.body), "Fencing-Position":
                            answer.held, "Connection": None if whole else "close"}.items():
            if value is not None:  # what is left of a body must not be read as the next request
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else answer.body)
    do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = do_GET

def serve(port, store):
    Handler.store, ThreadingHTTPServer.request_queue_size = store, 128
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("listening on http://127.0.0.1:%d/" % server.server_port, flush=True)
    server.serve_forever()

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A fence-aware service over SQLite.")
    arguments.add_argument("--port", type=int, default=9090, help="0 takes one that is free")
    arguments.add_argument("--database", default="receiver.db")
    arguments = arguments.parse_args()
    serve(arguments.port, Sqlite(arguments.database))
