"""Counts what makes the source long or hard to read, in the working tree or in commits side by side.

Non-test lines are those of shared/ and services/ outside tests and examples, after rustfmt with its defaults, so that commits with other
settings compare. --build also builds `stemma` from nothing in release mode: CPU seconds and the size of the binary. --deps counts the
crates that depend on RabbitMQ, Redis or AWS. With several commits, `new/old` is against the first.
"""

import json
import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path

from harness import ROOT

# An item under `#[cfg(test)]`: one line, or up to the closing brace at its own depth.
TEST_ITEM = re.compile(r"^( *)#\[cfg\((?:test|all\(test|any\(test)[^\n]*\]\n(?:\1#\[[^\n]*\]\n)*(?:\1[^\n]*;\n|\1[^\n]*\{\n.*?^\1\}\n?)", re.M | re.S)
TEST_MODULE_FILE = re.compile(r"^#\[cfg\((?:test|all\(test|any\(test)[^\n]*\]\n(?:pub(?:\([^)]*\))? )?mod (\w+);", re.M)
TEST_FILE = re.compile(r"(^|/)(tests|examples|benches)/|(^|/)tests?\.rs$|_tests?\.rs$")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
WORD_LIST = re.compile(r"(?:const|static)\s+\w+\s*:\s*&?\[[^=;]*?&(?:'static )?str[^=]*?=\s*(.*?);\n", re.S)
# Words that are compared in code instead of a list: `matches!(word, "a" | "b" | "c")`.
ALTERNATIVES = re.compile(r'"[a-z][a-z .\']*"(?:\s*\|\s*"[a-z][a-z .\']*"){2,}')
FLOAT = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
CLOSURE = re.compile(r"^\s*let \w+ = (?:move )?\|", re.M)
CUT_ITERATOR = re.compile(r"^\s*let (?:mut )?\w+ = [\w.&]+\.(?:iter|into_iter|chars|lines|values|keys|iter_mut|split_whitespace)\(\);", re.M)
STANDS, BESIDE = re.compile(r"\bstands?\b", re.I), re.compile(r"\bbesides?\b", re.I)
FUNCTION = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:async |const )*fn \w+.*?^\1\}", re.M | re.S)
SLEEP = re.compile(r"\bsleep\(")
SERVERS = re.compile(r"^(lapin|redis|aws-|fred|deadpool-lapin)")


def sources(root):
    """{path: text} of all Rust files of the product."""
    files = [path for top in ("shared", "services") for path in sorted((root / top).rglob("*.rs")) if "target" not in path.parts]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files}


def product(files):
    """Without tests."""
    tests = set()
    for path, text in files.items():
        stem = path.removesuffix(".rs")
        folder = path.rsplit("/", 1)[0] if stem.rsplit("/", 1)[1] in ("mod", "lib", "main") else stem
        tests |= {f"{folder}/{name}" for name in TEST_MODULE_FILE.findall(text)}
    return {path: TEST_ITEM.sub("", text) for path, text in files.items()
            if not TEST_FILE.search(path) and not any(path.startswith((f"{test}/", f"{test}.rs")) for test in tests)}


def formatted(root):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cp", "-r", root / "shared", root / "services", folder], check=True)
        paths = [str(path) for path in Path(folder).rglob("*.rs") if "target" not in path.parts]
        for at in range(0, len(paths), 200):
            subprocess.run(["rustfmt", "--edition", "2024", "--config-path", "/dev/null", *paths[at:at + 200]], check=False, capture_output=True)
        return sources(Path(folder))


def counts(root):
    """[(measure, value, unit)] of a source tree."""
    files = sources(root)
    texts = product(files)
    code = "\n".join("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//")) for text in texts.values())
    comments = "\n".join(texts.values())
    lists = [len(STRING.findall(found)) for found in WORD_LIST.findall(code)]
    lists = [words for words in lists if words >= 3] + [len(STRING.findall(found)) for found in ALTERNATIVES.findall(WORD_LIST.sub("", code))]
    lengths = [match.group().count("\n") + 1 for text in texts.values() for match in FUNCTION.finditer(text)]
    tests = [text for path, text in files.items() if TEST_FILE.search(path)] + [path.read_text() for path in sorted((root / "tests").rglob("*.rs"))]
    return [
        ("non-test lines of the product, rustfmt's defaults", sum(len(text.splitlines()) for text in product(formatted(root)).values()), "lines"),
        ("lines of tests/bench", sum(len(path.read_text(errors="replace").splitlines()) for path in (root / "tests/bench").rglob("*")
                                     if path.is_file() and path.suffix in (".py", "", ".sh")), "lines"),
        ("word lists in code, with alternatives of a match", len(lists), ""),
        ("English words in them", sum(lists), ""),
        ("float literals", len(FLOAT.findall(comments)), ""),
        ("named closures", len(CLOSURE.findall(code)), ""),
        ("cut iterators", len(CUT_ITERATOR.findall(code)), ""),
        ("lines with stand(s) or beside(s)", sum(bool(word.search(line)) for line in comments.splitlines() for word in (STANDS, BESIDE)), ""),
        ("functions over 100 lines", sum(length > 100 for length in lengths), ""),
        ("longest file", max(len(text.splitlines()) for text in texts.values()), "lines"),
        ("sleeps in tests", sum(len(SLEEP.findall(text)) for text in tests), ""),
    ]


def dependents(root):
    """Crates that reach a client of RabbitMQ, Redis or AWS through normal dependencies."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features", "--manifest-path", root / "Cargo.toml"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    below = {node["id"]: {dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])} for node in metadata["resolve"]["nodes"]}
    reached, grew = {id for id, name in names.items() if SERVERS.match(name)}, True
    while grew:
        more = {id for id, deps in below.items() if deps & reached} - reached
        reached, grew = reached | more, bool(more)
    own = {package["id"] for package in metadata["packages"] if package["manifest_path"].startswith((f"{root}/shared/", f"{root}/services/"))}
    return [("crates that depend on lapin, redis or aws", len(reached & own), ""), ("crates of the product", len(own), ""),
            ("packages in the lock file", len(names), "")]


def build(root):
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "stemma"], cwd=root, env=os.environ | {"CARGO_TARGET_DIR": folder}, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [("release build from nothing", seconds, "CPU-s"), ("binary", Path(folder, "release/stemma").stat().st_size / 1e6, "MB")]


def exported(bench, commit):
    root = bench.scratch / re.sub(r"\W", "_", commit)
    root.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", root], input=archive, check=True)
    return root


def main(bench):
    options, first = bench.options, {}
    for commit in options.commits or [None]:
        root = exported(bench, commit) if commit else ROOT
        if commit:
            bench.commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", commit], capture_output=True, text=True, check=True).stdout.strip()
            print(f"commit {bench.commit}")
        rows = counts(root) + (dependents(root) if options.deps else []) + (build(root) if options.build else [])
        for name, value, unit in rows:
            bench.record(name, value, unit, old=first.get(name))
        first = first or {name: value for name, value, _ in rows}


def add_arguments(parser):
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="commits to count [default: the working tree]")
    parser.add_argument("--build", action="store_true", help="also build the binary, which takes long")
    parser.add_argument("--deps", action="store_true", help="also count the crates that depend on RabbitMQ, Redis or AWS")
