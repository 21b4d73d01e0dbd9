#!/usr/bin/env python3
"""All mutants of the rules in one program.

`cargo mutants` builds once per mutant, which takes hours. This asks it for its list, writes every mutant into one copy of
the sources, each function choosing at run time by a number in the environment, builds that once, and runs the tests once
per number. What cannot be chosen so (functions that must be `const`, or that return `impl Trait`) is named at the end, for
`cargo mutants` itself.

    python3 tests/rules/mutants.py                 every mutant against the quick tests, then the rest against all
    python3 tests/rules/mutants.py position.rs     only those whose line contains this
"""

import json
import os
import re
import resource
import select
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
# These search whole worlds: only what everything else has missed is taken to them.
SLOW = ["it::model::", "a_fold_changes_no_verdict", "what_is_forgotten_is_refused_for_ever"]
QUIET_SECONDS = int(os.environ.get("MUTANTS_QUIET_SECONDS", "300"))
CHOICE = """//! Which mutant this process is; 0 is none.
use std::sync::OnceLock;

/// Its number.
pub fn which() -> usize {
    static WHICH: OnceLock<usize> = OnceLock::new();
    *WHICH.get_or_init(|| std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or_default())
}
"""


def listed():
    """What cargo-mutants would do, numbered from 1."""
    command = ["cargo", "mutants", "--list", "--json"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    texts = {mutant["file"]: Text(mutant["file"]) for mutant in found}
    apart = [mutant for mutant in found if texts[mutant["file"]].is_switched(mutant)]
    print(f"{len(apart)} stand behind the switch of a deliberate bug and are left out", flush=True)
    found = [mutant for mutant in found if mutant not in apart]
    for number, mutant in enumerate(found, 1):
        mutant["number"] = number
    return found


def copied():
    """A copy of the tree, as it stands."""
    shutil.rmtree(TREE, ignore_errors=True)
    names = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True)
    for name in filter(None, names.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)
    (TREE / "src" / "mutated.rs").write_text(CHOICE)
    for place, before in [("src/lib.rs", "pub mod domain;"), ("tests/rules/lib.rs", "    pub mod domain;")]:
        text = (TREE / place).read_text()
        (TREE / place).write_text(text.replace(before, f"{before}\npub mod mutated;", 1))
    lib = TREE / "tests/rules/lib.rs"
    lib.write_text(lib.read_text().replace("pub use shipped::{", "pub use shipped::{mutated, ", 1))


def switched(text):
    """Where code stands behind the switch of a deliberate bug: it is wrong on purpose, and never on in these tests."""
    for found in re.finditer(r"deliberate::on\(", text):
        at = found.end()
        while text[at] not in "{;":
            at += 1
        depth = 1 if text[at] == "{" else 0
        while depth:
            at += 1
            depth += {"{": 1, "}": -1}.get(text[at], 0)
        yield text.rfind("\n", 0, found.start()), at + 1


class Text:
    """A source file, addressed by line and column."""

    def __init__(self, path):
        self.text = (ROOT / path).read_text()
        self.starts = [0]
        for line in self.text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def at(self, place):
        return self.starts[place["line"] - 1] + place["column"] - 1

    def span(self, span):
        return self.at(span["start"]), self.at(span["end"])

    def is_switched(self, mutant):
        low, high = self.span(mutant["span"])
        return any(begin <= low and high <= end for begin, end in switched(self.text))


def body_of(text, begin, end, name):
    """Where the body of a function stands, without its braces; none where nothing can be chosen in it."""
    name = re.split(r"::", re.sub(r"<[^<>]*>", "", name))[-1].strip(" >")
    head = re.compile(r"(const )?fn " + re.escape(name) + r"\b").search(text, begin, end)
    if not head:
        return None
    at, depth = head.end(), 0
    while text[at] != "{" or depth:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        at += 1
    signature = text[head.start() : at]
    result = signature.rsplit("->", 1)[-1] if "->" in signature else ""
    last = text.rindex("}", begin, end)
    return None if "impl " in result else (head.start(), at + 1, last)


def written(mutants, keep, unviable):
    """Writes every file with its mutants in it. Returns where each stands, and those that have to stand apart."""
    places, apart = {}, set()
    files = {}
    for mutant in mutants:
        files.setdefault(mutant["file"], []).append(mutant)
    rooms = [path.relative_to(ROOT).as_posix() for room in ("domain", "protocol") for path in (ROOT / "src" / room).rglob("*.rs")]
    for file in sorted(set(files) | set(rooms)):
        source, groups = Text(file), {}
        for mutant in files.get(file, []):
            if mutant["function"] is None:
                apart.add(mutant["number"])
                continue
            groups.setdefault(source.span(mutant["function"]["span"]), []).append(mutant)
        # What is written inside another function is a part of it.
        outer = [one for one in groups if not any(o != one and o[0] <= one[0] and one[1] <= o[1] for o in groups)]
        out, done, arms = [], 0, []
        for begin, end in sorted(outer):
            inside = [m for span, some in groups.items() if begin <= span[0] and span[1] <= end for m in some]
            name = groups[(begin, end)][0]["function"]["function_name"]
            body = body_of(source.text, begin, end, name)
            short = name.split("::")[-1]
            is_const = body and source.text[body[0] :].startswith("const ")
            if body is None or (is_const and short in keep):
                apart |= {m["number"] for m in inside}
                continue
            _, first, last = body
            out.append(source.text[done:first])
            pieces = ["match crate::mutated::which() {\n"]
            for mutant in inside:
                if mutant["number"] in unviable:
                    continue
                low, high = source.span(mutant["span"])
                pieces.append((mutant["number"], source.text[first:low] + mutant["replacement"] + " " + source.text[high:last]))
            pieces.append((0, source.text[first:last]))
            for piece in pieces:
                if isinstance(piece, tuple):
                    number, text = piece
                    out.append(("_" if number == 0 else str(number)) + " => {")
                    arms.append((number, "".join(out).count("\n") + 1, text.count("\n")))
                    out.append(text + "\n}\n")
                else:
                    out.append(piece)
            out.append("}\n")
            done = last
        out.append(source.text[done:])
        text = re.sub(r"\bconst fn (\w+)", lambda m: m[0] if m[1] in keep else "fn " + m[1], "".join(out))
        (TREE / file).write_text(text)
        places[file] = [(number, line, line + lines) for number, line, lines in arms if number]
    return places, apart


def cargo(*arguments):
    manifest = TREE / "tests/rules/Cargo.toml"
    command = ["cargo", *arguments, "--manifest-path", manifest, "--target-dir", WORK / "target", "--message-format=json"]
    # The copies of long functions are worth optimising: each is run a thousand times.
    env = {**os.environ, "CARGO_PROFILE_DEV_OPT_LEVEL": "1", "CARGO_INCREMENTAL": "0"}
    ran = subprocess.run(command, cwd=TREE, env=env, capture_output=True, text=True)
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")], ran.stderr


def built(mutants):
    """Builds the program that holds all mutants, leaving out those that do not compile."""
    keep, unviable = set(), set()
    while True:
        places, apart = written(mutants, keep, unviable)
        code, messages, told = cargo("check", "--tests")
        if code == 0:
            break
        before = (len(keep), len(unviable))
        errors = [m["message"] for m in messages if m.get("reason") == "compiler-message" and m["message"]["level"] == "error"]
        for error in errors:
            constant = re.search(r"cannot call non-const .*`([^`]*)` in", error["message"])
            if constant:
                keep.add(re.sub(r"<[^<>]*>", "", constant[1]).split("::")[-1])
            for span in error["spans"]:
                file = os.path.normpath(os.path.join("tests/rules", span["file_name"])) if span["is_primary"] else ""
                hit = [n for n, first, last in places.get(file, []) if first <= span["line_start"] <= last]
                unviable |= set(hit if not constant else [])
        print(f"unviable {len(unviable)}, must be const: {sorted(keep)}", flush=True)
        if before == (len(keep), len(unviable)):
            print("\n".join(error["rendered"] for error in errors[:5]) or told)
            sys.exit("these errors lie in no mutant")
    code, messages, told = cargo("test", "--lib", "--no-run")
    if code:
        sys.exit(told)
    return [m["executable"] for m in messages if m.get("executable")][0], apart, unviable


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def verdict(program, number, arguments):
    """The first test that notices, `timeout`, or none. A process that ends before its tests do was noticed too."""
    env = {**os.environ, "MUTANT": str(number), "RUST_BACKTRACE": "0"}
    process = subprocess.Popen(
        [program, "--test-threads=1", *arguments],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limits,
    )
    last, begun, rest = "the first test", time.monotonic(), b""
    try:
        while True:
            if not select.select([process.stdout], [], [], 1)[0]:
                if time.monotonic() - begun > QUIET_SECONDS:
                    return "timeout in " + last
                continue
            more = os.read(process.stdout.fileno(), 65536)
            rest += more
            begun = time.monotonic()
            found = re.findall(rb"^test (\S+).* \.\.\. ?(ok|FAILED)?", rest, re.M)
            failed = [name.decode() for name, how in found if how == b"FAILED"]
            if failed:
                return failed[0]
            last = found[-1][0].decode() if found else last
            if not more:
                return None if process.wait() == 0 else "the end of the process in " + last
    finally:
        process.kill()
        process.wait()


def main():
    mutants = listed()
    copied()
    program, apart, unviable = built(mutants)
    words = sys.argv[1:]
    wanted = [m for m in mutants if not words or any(word in m["name"] for word in words)]
    tried = [m for m in wanted if m["number"] not in apart | unviable]
    quick = [f"--skip={name}" for name in SLOW]
    for arguments in (quick, []):
        assert verdict(program, 0, arguments) is None, "the tests fail without a mutant"
    left, results = tried, {}
    for arguments in (quick, SLOW):
        with ThreadPoolExecutor(int(os.environ.get("MUTANTS_JOBS", "2"))) as pool:
            runs = pool.map(lambda m, arguments=arguments: (m, verdict(program, m["number"], arguments)), left)
            for mutant, noticed in runs:
                results[mutant["number"]] = noticed
                if noticed is None:
                    print("missed:", mutant["name"], flush=True)
        left = [m for m in left if results[m["number"]] is None]
        print(f"-- {len(left)} of {len(tried)} are left", flush=True)
    with open(WORK / "results.txt", "w") as out:
        for mutant in wanted:
            number = mutant["number"]
            how = "apart" if number in apart else "unviable" if number in unviable else results[number] or "MISSED"
            out.write(f"{mutant['name']}\t{how}\n")
    numbers = {m["number"] for m in wanted}
    late = sum(1 for how in results.values() if how and how.startswith("timeout"))
    print(f"{len(wanted)} mutants: {len(tried) - len(left) - late} caught, {late} timed out, {len(left)} missed,")
    print(f"{len(unviable & numbers)} unviable, {len(apart & numbers)} for cargo mutants itself; see {WORK}/results.txt")
    for mutant in wanted:
        if mutant["number"] in apart:
            print("apart:", mutant["name"])
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
