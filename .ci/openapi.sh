#!/usr/bin/env bash
# Holds openapi.yaml against its linter and against a running gateway. Needs the binary (cargo build --locked), Node and
# Python 3 with venv; installs the pinned Redocly CLI (from npm) and schemathesis (from PyPI, under target/ci-venv).
#
#   bash .ci/openapi.sh          lint, then start target/debug/fencegate and attack it
#   bash .ci/openapi.sh lint     lint only
#   bash .ci/openapi.sh URL      lint, then attack the gateway that answers at URL. It writes: only for throw-away data
#
#   FENCEGATE_CI_BINARY=PATH     another binary
#   FENCEGATE_CI_EXAMPLES=N      generated cases per call and phase
#   FENCEGATE_CI_SEED=N          another seed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

readonly REDOCLY_VERSION=2.77.0
readonly SCHEMATHESIS_VERSION=4.32.5
readonly BINARY="${FENCEGATE_CI_BINARY:-target/debug/fencegate}"
readonly EXAMPLES="${FENCEGATE_CI_EXAMPLES:-100}"
readonly SEED="${FENCEGATE_CI_SEED:-20260913}"
# All of it together, lint included, stays below four minutes; this stops a run that hangs.
readonly LIMIT_SECONDS=300
readonly ROOT="$PWD"
readonly VENV="$ROOT/target/ci-venv"
readonly TARGET="${1:-}"

scratch="$(mktemp -d)"
gateway=""

cleanup() {
  if [ -n "$gateway" ]; then
    kill "$gateway" 2>/dev/null || true
    wait "$gateway" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap cleanup EXIT

fail() {
  printf 'openapi: %s\n' "$*" >&2
  exit 1
}

lint() {
  command -v npx >/dev/null || fail "npx is missing; install Node 20 or newer"
  printf 'running @redocly/cli %s (npx installs it when it is missing)\n' "$REDOCLY_VERSION"
  REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
    npx --yes "@redocly/cli@$REDOCLY_VERSION" lint --config redocly.yaml openapi.yaml
}

venv() {
  local found=""
  [ ! -x "$VENV/bin/schemathesis" ] || found="$("$VENV/bin/schemathesis" --version)"
  case "$found" in
    *" $SCHEMATHESIS_VERSION") ;;
    *)
      printf 'installing schemathesis %s into %s\n' "$SCHEMATHESIS_VERSION" "$VENV"
      python3 -m venv --clear "$VENV"
      "$VENV/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$SCHEMATHESIS_VERSION"
      "$VENV/bin/pip" list --disable-pip-version-check --format freeze
      ;;
  esac
}

# ready URL: whether /readyz answers 200.
ready() {
  python3 - "$1/readyz" <<'PY' 2>/dev/null
import sys, urllib.request
sys.exit(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=2).status != 200)
PY
}

# start: sets `url`. Any namespace is taken with the default rules; two more have an external issuer and an order.
start() {
  local port tries=0 name
  [ -x "$BINARY" ] || fail "$BINARY is missing; build it first: cargo build --locked"
  # The gateway under test must not read the settings of whoever runs this.
  for name in $(compgen -e FENCEGATE_ || true); do
    unset "$name"
  done
  cat >"$scratch/fencegate.toml" <<'TOML'
# The document has the bounds of a ttl that a namespace may have; so these have them.
[namespaces."*"]
policy = "single"
lease = { min_ttl_ms = 1, max_ttl_ms = 86400000 }

[namespaces.jobs]
issuer = { external = "trusted" }
contract = "observed"

[namespaces.ledger]
policy = "ordered"
lease = { min_ttl_ms = 1, max_ttl_ms = 86400000 }
TOML
  port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
  url="http://127.0.0.1:$port"
  "$BINARY" --config "$scratch/fencegate.toml" serve --listen "127.0.0.1:$port" \
    --database "sqlite://$scratch/fg.db" --seal-key-file "$scratch/key" >"$scratch/serve.log" 2>&1 &
  gateway=$!
  until ready "$url"; do
    tries=$((tries + 1))
    kill -0 "$gateway" 2>/dev/null || { cat "$scratch/serve.log" >&2; fail "the gateway ended before it was ready"; }
    [ "$tries" -lt 150 ] || { cat "$scratch/serve.log" >&2; fail "the gateway is not ready after 30 s"; }
    sleep 0.2
  done
  printf 'the gateway answers at %s (process %s)\n' "$url" "$gateway"
}

# What schemathesis is to expect. The checks are all on; these are the statuses by which a refusal counts as one.
settings() {
  cat >"$scratch/schemathesis.toml" <<TOML
hooks = "$scratch/hooks.py"
request-timeout = 10
continue-on-failure = true

[dictionaries.namespaces]
values = ["statements", "jobs", "jobs", "ledger"]

[dictionaries.tokens]
values = ["1", "0.1", "0.2", "3", "0.7"]

[parameters]
"path.namespace" = { dictionary = "namespaces", probability = 0.7 }
"header.Fencing-Token" = { dictionary = "tokens", probability = 0.5 }

[checks.negative_data_rejection]
expected-statuses = ["4xx"]

[checks.missing_required_header]
expected-statuses = ["400", "403", "404", "428"]

[phases.stateful]
max-steps = 10
generation.max-examples = $((EXAMPLES * 4))
TOML
  cat >"$scratch/hooks.py" <<'PY'
"""What a JSON schema cannot say.

Links that take a resource's name apart, which only the test tool can; and, for requests that fit the schema, which
refusals are right all the same: because of what is stored, or because of a rule between fields.
"""
import itertools
import re
import unicodedata
from urllib.parse import unquote

import requests
import schemathesis
from schemathesis.generation.meta import TestPhase
from schemathesis.openapi.checks import AllowHeaderMismatch, MissingHeaderNotRejected, RejectedPositiveData, UseAfterFree
from schemathesis.specs.openapi import stateful

MAX = 2**63 - 1

# Longest wait that is let through to the gateway: what is asked for is long, and would be waited for.
WAIT_MS = 50

number = itertools.count(1)

# The tool guesses which calls a chain may begin with, and takes `request_id` for something that another call makes.
stateful.is_likely_root_transition = lambda operation, *_: operation.path == "/v1/leases"

# Refusals that depend on what is stored or on the namespace, not on the form of the request.
STATE = {
    "operation_mismatch", "request_mismatch", "issuer_external", "deleted", "incarnation_gone", "lease_expired",
    "lease_superseded", "lease_released", "stale_token", "generation_spent", "sequence_regressed", "sequence_required",
    "precondition_failed", "precondition_required",
}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    answers = raw_schema["paths"]["/v1/leases"]["post"]["responses"]
    below = {
        "path.namespace": r"$response.body#/resource#regex:^([^/]+)/",
        "path.name": r"$response.body#/resource#regex:^[^/]+/(.+)$",
        "header.Fencing-Token": "$response.body#/fencing_token",
        "header.Idempotency-Key": "$response.body#/request_id",
    }
    for status in ("200", "201"):
        for operation in ("putDocument", "postDocument", "deleteDocument"):
            answers[status]["links"][operation] = {"operationId": operation, "parameters": dict(below)}


def texts(value):
    """Every text of a JSON value, with the name of its field."""
    stack = [("", value)]
    while stack:
        field, item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.items())
        elif isinstance(item, list):
            stack.extend((field, part) for part in item)
        elif isinstance(item, str):
            yield field, item


def not_canonical(name):
    return (
        unicodedata.normalize("NFC", name) != name
        or len(name.encode("utf-8", "surrogatepass")) > 512
        or any(segment in (".", "..") for segment in name.split("/"))
        or name.split("/")[0] == "*"
    )


def names(case):
    path = {key: unquote(str(value)) for key, value in (case.path_parameters or {}).items()}
    if "name" in path:
        yield "/".join(filter(None, [path.get("namespace"), path["name"]]))
    elif "namespace" in path:
        yield path["namespace"]
    for field, text in [*texts(case.query or {}), *texts(case.body)]:
        if field in ("resource", "resources", "namespace", "prefix"):
            yield text


def counters(case, *fields):
    for field, text in [*texts(dict(case.headers or {})), *texts(case.query or {}), *texts(case.body)]:
        if field.lower().replace("-", "_") in fields:
            yield from (int(part) for part in re.findall(r"\d+", text)[:2])


def longer(case, field, most):
    return any(name == field and len(text.encode("utf-8", "surrogatepass")) > most for name, text in texts(case.body))


def fits(case):
    """Whether the headers are as described. A few cases that are meant to be are not."""
    described = {parameter.name: parameter for parameter in case.operation.headers}
    return all(
        described[name].get_validator().is_valid(str(value))
        for name, value in (case.headers or {}).items()
        if name in described
    )


def rule_between_fields(code, case):
    """Whether the code names a rule that the request really breaks."""
    body = case.body if isinstance(case.body, dict) else {}
    headers = {name.lower(): value for name, value in (case.headers or {}).items()}
    if code == "invalid_resource":
        # What hooks put into a query is a resource's name, and no namespace has a slash.
        slashed = "/" in str((case.query or {}).get("namespace") or "")
        return slashed or any(not_canonical(name) for name in names(case))
    if code == "invalid_sequence":
        return any(True for _ in counters(case, "fencing_sequence", "sequence"))
    if code == "invalid_token":
        sealed = re.compile(r"^\d+\.\d+\.")
        presented = [*texts(dict(case.headers or {})), *texts(case.body)]
        too_large = any(number > MAX for number in counters(case, "fencing_token"))
        return too_large or any(sealed.match(text) for _, text in presented)
    if code == "invalid_request":
        given = (headers.get("idempotency-key"), body.get("request_id"))
        ids = {str(value).strip('"').lower() for value in given if value}
        too_large = any(number > MAX for number in counters(case, "fencing_incarnation", "incarnation"))
        prefix = str((case.query or {}).get("prefix") or "").encode("utf-8", "surrogatepass")
        wait = "wait" in str(headers.get("prefer")).lower()
        if case.path == "/v1/whoami":
            return ("permission" in (case.query or {})) != ("resource" in (case.query or {}))
        if case.path == "/v1/operations" and not (case.query or {}).get("resource"):
            return (case.query or {}).get("state") not in ("uncertain", "intent")
        tokens = (headers.get("fencing-token"), body.get("fencing_token"))
        two_tokens = len({str(token) for token in tokens if token}) > 1
        return "cursor" in (case.query or {}) or len(ids) > 1 or too_large or len(prefix) > 512 or wait or two_tokens
    if code == "invalid_field":
        writes = body.get("writes") or []
        together = len({write["resource"] for write in writes}) < len(writes)
        too_large = any(number > MAX for number in counters(case, "incarnation"))
        meant = "confirm" not in body or body["confirm"] == (case.path_parameters or {}).get("namespace")
        return not meant or together or too_large or longer(case, "holder", 255) or longer(case, "reason", 1024)
    if code == "invalid_body":
        removals = [write for write in body.get("writes") or [] if write["method"] == "DELETE"]
        return any(write.get("body") or write.get("body_base64") for write in removals)
    if code == "reason_required":
        return not str(body.get("reason")).strip()
    if code == "method_not_allowed":
        # No namespace here has an upstream, and documents are not patched.
        return case.method == "PATCH"
    if code == "token_required":
        # Of a cancelled resource with an external issuer.
        return case.path.startswith("/v1/reopen/") and not body.get("fencing_token")
    return False


def shorter(fields):
    """The same, without a wait that would be waited for."""
    wait = str((fields or {}).get("wait_ms"))
    if not (wait.isascii() and wait.isdigit() and WAIT_MS < int(wait) <= 30_000):
        return fields
    return {**fields, "wait_ms": type(fields["wait_ms"])(WAIT_MS)}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Chains of valid requests get far only when their first steps succeed."""
    if isinstance(case.body, dict):
        case.body = shorter(case.body)
    case.query = shorter(case.query)
    if case.path == "/v1/events":
        # A stream that begins has no end: what it refuses is looked at, and what it tells is held by the tests.
        case.query = {**(case.query or {}), "namespace": "a/b"}
    if case.path == "/v1/leases/{acquisition_id}/events":
        # The stream of a live lease goes on for as long as the lease does.
        requests.delete(case.as_transport_kwargs()["url"].removesuffix("/events"), timeout=10)
    meta = case.meta
    if meta is None or meta.phase.name is not TestPhase.STATEFUL or not meta.generation.mode.is_positive:
        return
    if case.path == "/v1/leases" and isinstance(case.body, dict):
        # A resource of its own for each chain: a held lease would end it at once.
        body = {key: value for key, value in case.body.items() if key not in ("resource", "resources", "request_id")}
        name = case.body.get("resource") or "statements/story"
        if not_canonical(name) or len(name.encode()) > 490 or name.split("/")[0] in ("jobs", "ledger"):
            name = "statements/story"
        case.body = {**body, "resource": f"{name}/{next(number)}"}
        case.headers.pop("Idempotency-Key", None)
    # So would a sequence, which the policy of these resources does not take.
    case.headers.pop("Fencing-Sequence", None)
    if case.path == "/v1/writes" and isinstance(case.body, dict):
        case.body = {"writes": [{**write, "sequence": None} for write in case.body["writes"]]}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Only refusals that were wrong stay failures."""
    if isinstance(failure, UseAfterFree):
        # A released lease is still shown, with the state it ended in; a deleted document is not.
        return case.path.startswith("/fenced/")
    if isinstance(failure, MissingHeaderNotRejected) and case.method == "PATCH":
        # Documents are not patched, whatever comes with it.
        return response.status_code != 405
    if isinstance(failure, AllowHeaderMismatch) and case.path.startswith("/fenced/"):
        return response.headers["allow"] != ["GET, HEAD, PUT, POST, DELETE"]
    if not isinstance(failure, RejectedPositiveData):
        return True
    if not fits(case):
        return False
    if case.method == "HEAD":
        right = response.status_code in (410, 412) or any(not_canonical(name) for name in names(case))
        return not right
    code = response.json().get("code")
    return not (code in STATE or rule_between_fields(code, case))
PY
}

attack() {
  printf 'attacking %s: seed %s, %s examples\n' "$url" "$SEED" "$EXAMPLES"
  # In the scratch directory, because the tool leaves files where it runs. Proxies of whoever runs this have no business
  # between it and a loopback address. One worker, so that a seed means the same requests.
  (
    cd "$scratch"
    env NO_PROXY='*' no_proxy='*' timeout --signal INT "$LIMIT_SECONDS" \
      "$VENV/bin/schemathesis" --config-file "$scratch/schemathesis.toml" --no-color \
      run "$ROOT/openapi.yaml" --url "$url" --checks all --phases examples,coverage,fuzzing,stateful --mode all \
      --max-examples "$EXAMPLES" --seed "$SEED" --generation-database none --output-sanitize false --workers 1
  )
}

lint
[ "$TARGET" != lint ] || exit 0
venv
settings
if [ -n "$TARGET" ]; then
  url="$TARGET"
else
  start
fi
attack || {
  [ -z "$gateway" ] || { printf '\nthe end of the gateway'"'"'s log:\n'; tail -n 40 "$scratch/serve.log"; } >&2
  fail "the gateway and openapi.yaml disagree"
}
if [ -n "$gateway" ]; then
  code=0
  kill -TERM "$gateway"
  wait "$gateway" || code=$?
  gateway=""
  [ "$code" -eq 0 ] || fail "after the attack and TERM the gateway ended with $code, not with 0"
fi
