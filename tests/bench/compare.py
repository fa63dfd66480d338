"""Runs two binaries over the same documents and questions, and lists every result that differs."""

import json
import shutil
import subprocess
import sys

import bench
from bench import DATA, SCRATCH, STEMMA, Sim, check, finish, stemma

OLD = sys.argv[1]
QUICK = "--quick" in sys.argv[2:]
FOLDERS = ["dev/pdf"] if QUICK else ["dev/pdf", "dev/pdf_blind", "dev/markdown", "dev/more", "dev/general/pdf"]
# Each answer is one process that calls the simulated model; the documents of all issuers are among the first questions.
ANSWERS = 8 if QUICK else 47
STRATEGIES = ["ranked", "lexical"]
BINARIES = {"old": OLD, "new": STEMMA}
# What a run draws at random, reads from the clock or measures; everything else must be the same.
VOLATILE = {"id", "run", "job", "published", "published_at", "created", "created_at", "added", "updated", "seconds", "millis", "took_ms",
            "elapsed_ms", "latency_ms", "at_ms", "version_id", "settings", "flow"}


def run(name, store, *words, **options):
    """A command of one of the binaries."""
    bench.STEMMA = BINARIES[name]
    return stemma(store, *words, **options)


def stable(value):
    if isinstance(value, dict):
        if isinstance(value.get("error"), dict):
            # The words of an error may be improved; its code is what programs read.
            return value | {"error": value["error"].get("code")}
        return {key: stable(inner) for key, inner in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [stable(inner) for inner in value]
    return value


def parsed(text):
    """The JSON values of an output, without what is volatile; text that is no JSON as it is."""
    try:
        return stable(json.loads(text))
    except ValueError:
        pass
    try:
        return [stable(json.loads(line)) for line in text.splitlines() if line]
    except ValueError:
        return text


def difference(old, new, path=""):
    """The first place where two values differ."""
    if type(old) is not type(new):
        return f"{path}: {json.dumps(old)[:160]} != {json.dumps(new)[:160]}"
    if isinstance(old, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                return f"{path}/{key}: only in {'new' if key in new else 'old'}"
            if at := difference(old[key], new[key], f"{path}/{key}"):
                return at
        return None
    if isinstance(old, list):
        for at, (one, other) in enumerate(zip(old, new)):
            if found := difference(one, other, f"{path}/{at}"):
                return found
        return None if len(old) == len(new) else f"{path}: {len(old)} != {len(new)} entries"
    return None if old == new else f"{path}: {json.dumps(old)[:160]} != {json.dumps(new)[:160]}"


def compare(what, old, new):
    """Both are results by name."""
    differing = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            differing.append(f"{name}: only in {'new' if name in new else 'old'}")
        elif at := difference(old[name], new[name]):
            differing.append(f"{name} {at}")
    check(bool(old) and not differing, f"{what}: {len(old)} compared, {len(differing)} differ")
    for line in differing[:10]:
        print(f"       {line}")


def files(folder):
    return {str(path.relative_to(folder)): parsed(path.read_text()) for path in sorted(folder.rglob("*")) if path.is_file()}


def exported(name, store, label, *options):
    folder = SCRATCH / f"{label}-{store}-{name}"
    run(name, store, "-q", "export", *options, "--out", folder)
    return files(folder)


def documents(name, store):
    listed = json.loads(run(name, store, "-q", "--json", "ls", "-R").stdout)
    return [document["label"] if "label" in document else document["name"] for document in listed["documents"]]


def batch(path, questions, known):
    lines = []
    for question in questions:
        line = {"id": question["id"], "query": question["question"]}
        lines.append(json.dumps(line | ({"doc": question["doc_name"]} if known else {})))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def searched(name, store, questions, strategy, known):
    path = batch(SCRATCH / "batch.jsonl", questions, known)
    output = run(name, store, "-q", "search", "--batch", path, "--strategy", strategy, timeout=3_600).stdout
    # `id` is left out by `stable`, so it is taken as the name.
    return {str(json.loads(line).get("id")): parsed(line) for line in output.splitlines()}


def answered(name, store, questions):
    found = {}
    with Sim() as sim:
        for question in questions:
            words = ("-q", "--json", "ask", question["question"], "--in", question["doc_name"])
            found[question["id"]] = parsed(run(name, store, *words, sim=sim, check=False).stdout)
    return found


def per_document(name, store, labels, *command):
    return {label: parsed(run(name, store, "-q", "--json", *command, label, check=False).stdout) for label in labels}


def load(path):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("pdf_present", True)]


def main():
    for binary in BINARIES.values():
        print(subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip(), binary)
    store = "documents"
    stores = {name: f"{name}-{store}" for name in BINARIES}
    for name in BINARIES:
        run(name, stores[name], "-q", "ingest", *(DATA / folder for folder in FOLDERS))

    def both(make, *arguments):
        return [make(name, stores[name], *arguments) for name in BINARIES]

    compare("trees", *both(exported, "trees", "--format", "pageindex", "--text"))
    compare("page texts", *both(exported, "pages", "--format", "pages"))
    labels = documents("new", stores["new"])
    check(labels == documents("old", stores["old"]), f"the same {len(labels)} documents are listed")
    compare("facts", *both(per_document, labels, "stat"))
    compare("Items", *both(per_document, labels, "items"))
    filings = load(DATA / "dev/retrieval.jsonl")
    compare("diffs to the previous filing", *both(per_document, labels[:8] if QUICK else labels, "diff"))
    compare("answers of a simulated model", *both(answered, filings[:ANSWERS]))

    upgraded = "old-store-read-by-new"
    shutil.copytree(SCRATCH / stores["old"], SCRATCH / upgraded)
    listed = run("new", upgraded, "-q", "ls", check=False)
    if listed.returncode != 0:
        print(f"       {listed.stderr.strip()}")
        check("stemma" in listed.stderr, "the new binary refuses the old store and names a command")
    else:
        compare("trees of the old store, read by the new binary", exported("old", stores["old"], "upgrade", "--format", "pageindex"),
                exported("new", upgraded, "upgrade", "--format", "pageindex"))
        stores["new"] = upgraded
    # Both search one index if they can: equal scores stand in the order of indexing, which differs from run to run.
    questions = {"filings": filings}
    if not QUICK:
        questions["other documents"] = load(DATA / "dev/general/questions.jsonl")
    for subject, asked in questions.items():
        for strategy in STRATEGIES:
            for known in (True, False):
                where = "in the named document" if known else "in all documents"
                compare(f"{strategy} search about {subject}, {where}", *both(searched, asked, strategy, known))
    finish()


main()
