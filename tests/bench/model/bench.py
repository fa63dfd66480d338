"""What the benches of the model path have in common: the simulated provider, the commands of stemma, trees."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
import urllib.request
from pathlib import Path

STEMMA, SIM = os.environ["STEMMA"], os.environ["SIM"]
DATA, TOOLS, SCRATCH = (Path(os.environ[name]) for name in ("DATA", "TOOLS", "SCRATCH"))
TRUTHS = {"pdf": ("sec-items", "manual", "contract"), "pdf_blind": ("outline",)}
failed = []


def check(holds, what):
    """Says whether something holds, and remembers what does not."""
    print(f"  {'ok  ' if holds else 'MISS'} {what}", flush=True)
    if not holds:
        failed.append(what)
    return holds


def finish():
    print(f"\n{len(failed)} missed" if failed else "\nall as it must be")
    for what in failed:
        print(f"  {what}")
    sys.exit(1 if failed else 0)


def texts():
    """The folder of page texts of the dev documents, read once."""
    folder = SCRATCH / "texts"
    if not folder.exists():
        subprocess.run([SIM, "pages", "--out", folder, DATA / "dev/pdf"], check=True)
    return folder


class Sim:
    """A running provider. Settings are those of `sim serve`, with `.` between the names."""

    def __init__(self, truth=TRUTHS["pdf"], record=None, known=True, port=0, **settings):
        command = [SIM, "serve", "--port", str(port)]
        if known:
            for name in truth:
                command += ["--truth", str(DATA / "dev/truth" / name)]
            command += ["--texts", str(texts())]
        if record:
            command += ["--record", str(record)]
        for name, value in settings.items():
            command += [f"--{name.replace('__', '.')}", value if isinstance(value, str) else json.dumps(value)]
        self.log = open(SCRATCH / "sim.log", "a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the provider did not start; see {self.log.name}: {Path(self.log.name).read_text()[-500:]}")
        self.address = json.loads(line)["address"]
        self.base_url = json.loads(line)["base_url"]

    def report(self):
        with urllib.request.urlopen(f"http://{self.address}/report", timeout=60) as reply:
            return json.load(reply)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.process.stdout.close()
        self.log.close()


def environment(sim=None, **settings):
    """Settings as variables: `model__concurrency=8` is STEMMA_MODEL__CONCURRENCY."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("STEMMA_")}
    if sim:
        variables |= {"STEMMA_MODEL__NAME": "oracle", "STEMMA_MODEL__BASE_URL": sim.base_url}
    return variables | {f"STEMMA_{name.upper()}": str(value) for name, value in settings.items()}


def stemma(store, *words, sim=None, timeout=3_600, check=True, **settings):
    """Runs a command over the store SCRATCH/`store` and returns its process with stdout, stderr and seconds."""
    began = time.monotonic()
    command = [STEMMA, "--store", str(SCRATCH / store), *map(str, words)]
    done = subprocess.run(command, env=environment(sim, **settings), capture_output=True, text=True, timeout=timeout)
    done.seconds = time.monotonic() - began
    if check and done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2_000:]}")
    return done


def ingest(store, *paths, sim=None, **settings):
    return stemma(store, "-q", "ingest", *paths, sim=sim, **settings)


def answer(store, *words, sim=None, **settings):
    """The JSON answer of a command, with its exit code and seconds."""
    done = stemma(store, "-q", "--json", *words, sim=sim, check=False, **settings)
    try:
        value = json.loads(done.stdout)
    except ValueError:
        value = {"unreadable": done.stdout[-500:], "errors": done.stderr[-500:]}
    return value | {"exit": done.returncode, "seconds": round(done.seconds, 1), "stderr": done.stderr}


def export(store, *words):
    """The trees of a store by document name."""
    folder = SCRATCH / f"{store}-trees"
    shutil.rmtree(folder, ignore_errors=True)
    stemma(store, "-q", "export", "--format", "pageindex", *words, "--out", folder)
    files = sorted(folder.rglob("*.json"))
    return folder, {re.sub(r"\.(pdf|md|txt)$", "", path.stem): json.loads(path.read_text()) for path in files}


def pages(store):
    """The text of every page by document name and page."""
    folder, found = SCRATCH / f"{store}-pages", {}
    shutil.rmtree(folder, ignore_errors=True)
    stemma(store, "-q", "export", "--format", "pages", "--out", folder)
    for path in sorted(folder.rglob("*")):
        for line in path.read_text().splitlines() if path.is_file() else ():
            page = json.loads(line)
            found[re.sub(r"\.(pdf|md|txt)$", "", Path(page["doc"]).name), page["page"]] = page["text"]
    return found


def walk(tree):
    """Every section with its depth, in reading order."""
    stack = [(node, 1) for node in reversed(tree["structure"])]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack += [(child, depth + 1) for child in reversed(node.get("nodes") or [])]


def summary_of(node):
    return node.get("summary") or node.get("prefix_summary") or ""


def squash(text):
    return "".join(c for c in unicodedata.normalize("NFKC", text).lower() if c.isalnum())


def is_whole(summary):
    """Whether a summary is one as the oracle writes them: it ends with a word made of all before it."""
    said, _, word = summary.removesuffix(")").rpartition(" (")
    return bool(said) and word == word_of(said)


def word_of(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    bits = [value >> 8 * at for at in range(5)]
    return "".join("bdfghjklmnprstvz"[b & 15] + "aiou"[b >> 4 & 3] for b in bits)


def recorded(path):
    """The requests of a provider's record."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def by_stage(report):
    return ", ".join(f"{stage} {sums['calls']}" for stage, sums in report["stages"].items())
