"""What the bench commands share: binaries, documents, time and memory of a process, results."""

import argparse
import ctypes
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRUTH = ROOT / "tests/truth"
HALVES = json.loads((TRUTH / "halves.json").read_text())
PR_SET_CHILD_SUBREAPER = 36
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Exit status 3: some documents failed.
INGESTED = (0, 3)


class Skipped(SystemExit):
    """Something outside the repository is missing. That is no failure."""

    def __init__(self, reason):
        print(f"skipped: {reason}")
        super().__init__(0)


def half_of(document):
    """A or B: the half of a document's issuer, or its own. Rules are made on half A; half B is only measured."""
    for kind in ("filings", "general"):
        for half in "AB":
            if any(document.startswith(prefix) for prefix in HALVES[kind][half]):
                return half
    return None


def by_half(rows):
    """{half: rows} of the halves that have any; rows are dicts with `half`."""
    groups = {half: [row for row in rows if row["half"] == half] for half in "AB"}
    return {half: group for half, group in groups.items() if group}


def mean(values):
    return statistics.fmean(values) if values else 0.0


def percentile(values, share):
    return sorted(values)[max(len(values) * share // 100 - 1, 0)]


def read_lines(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def write_lines(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def document_name(path):
    """A document's name in gold data: its file name without the extension."""
    name = Path(path).name
    return name.rsplit(".", 1)[0] if name.endswith((".pdf", ".md", ".txt", ".htm", ".html", ".json")) else name


def walk(nodes, depth=1):
    """(depth, node) of each section of a PageIndex tree, in reading order."""
    waiting = [(depth, node) for node in reversed(nodes)]
    while waiting:
        at, node = waiting.pop()
        yield at, node
        waiting += [(at + 1, child) for child in reversed(node.get("nodes") or [])]


def clean_environment(more=None):
    """The environment without settings of Stemma, except those that are given."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("STEMMA_") or name.startswith("STEMMA_TEST_")}
    return own | {name: str(value) for name, value in (more or {}).items()}


class Usage:
    """What a command used, with all processes that it started."""

    def __init__(self, status, wall_s, cpu_s, peak_bytes, output, errors):
        self.status, self.wall_s, self.cpu_s, self.peak_bytes = status, wall_s, cpu_s, peak_bytes
        self.output, self.errors = output, errors


def children_of(pid):
    lists = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    return {int(child) for text in lists for child in text.split()}


def tree_rss(root):
    """Resident bytes of a process and its descendants; shared pages count in each."""
    total, pids = 0, [root]
    while pids:
        pid = pids.pop()
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
            pids += children_of(pid)
        except (OSError, IndexError, ValueError):
            continue  # it has ended
    return total


def measure(command, env=None, timeout_s=7_200):
    """Runs a command and returns its `Usage`. Processes that it leaves behind are adopted and waited for."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = children_of(os.getpid())
    before, began, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=clean_environment(env))
        while process.poll() is None:
            peak = max(peak, tree_rss(process.pid))
            if time.monotonic() - began > timeout_s:
                process.kill()
            time.sleep(0.02)
        wall_s = time.monotonic() - began
        while adopted := children_of(os.getpid()) - others:
            for pid in adopted:
                os.waitpid(pid, 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Usage(process.returncode, wall_s, cpu_s, peak, *texts)


class CommandFailed(Exception):
    """A command of a binary ended with an unexpected exit status."""


class UnknownOption(CommandFailed):
    """A binary does not have a command or an option. Spellings differ between commits."""


class Store:
    """A binary of Stemma and a store of its own."""

    def __init__(self, binary, folder, env=None):
        self.binary, self.folder, self.env = str(binary), Path(folder), env or {}

    def command(self, *words):
        return [self.binary, "--store", str(self.folder), *map(str, words)]

    def run(self, *words, expected=INGESTED, env=None, timeout_s=3_600):
        """The output of a command."""
        done = subprocess.run(self.command("-q", *words), capture_output=True, text=True, timeout=timeout_s, env=clean_environment(self.env | (env or {})))
        if done.returncode == 2 and "try '--help'" in done.stderr:
            raise UnknownOption(f"stemma {' '.join(map(str, words))}: {done.stderr.strip().splitlines()[0]}")
        if expected is not None and done.returncode not in expected:
            raise CommandFailed(f"stemma {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def json(self, *words, **options):
        text = self.run("--json", *words, **options)
        return json.loads(text) if text.strip() else {}

    def ingest(self, *paths, **options):
        self.run("ingest", *paths, **options)
        return self

    def copy(self, folder):
        """The same documents in another folder, for commands that write. Objects are never changed, so links will do."""
        shutil.copytree(self.folder, folder, copy_function=os.link)
        return Store(self.binary, folder, self.env)

    def documents(self):
        """The labels of all documents, sorted."""
        listed = self.json("ls", "-R")["documents"]
        return sorted(row["label"] if "label" in row else row["name"] for row in listed)

    def export(self, form, folder, *options):
        """Files of `stemma export` by their path below `folder`."""
        shutil.rmtree(folder, ignore_errors=True)
        self.run("export", "--format", form, *options, "--out", folder)
        return {str(path.relative_to(folder)): path for path in sorted(Path(folder).rglob("*")) if path.is_file()}

    def trees(self, folder, *options):
        """{document: PageIndex tree}."""
        return {document_name(path): json.loads(path.read_text()) for path in self.export("pageindex", folder, *options).values()}

    def pages(self, folder):
        """{(document, page): text} as Stemma extracted it."""
        rows = [row for path in self.export("pages", folder).values() for row in read_lines(path)]
        return {(document_name(row["doc"]), row["page"]): row["text"] for row in rows}

    def search_batch(self, folder, questions, *options, env=None):
        """The answers to rows of `id`, `query` and, where the document is known, `doc`; in order."""
        batch = write_lines(Path(folder) / "batch.jsonl", questions)
        lines = self.run("search", "--batch", batch, *options, env=env).splitlines()
        return [json.loads(line) for line in lines]


class Server:
    """`stemma query`, or another command that listens, until the end of a `with` block."""

    def __init__(self, store, *words, env=None, headers=None):
        self.headers = {"content-type": "application/json"} | (headers or {})
        command = store.command(*(words or ["query"]), "--listen", "127.0.0.1:0")
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log, text=True, env=clean_environment(store.env | (env or {})))
        deadline = time.monotonic() + 120
        self.url = None
        while self.url is None:
            text = Path(self.log.name).read_text(encoding="utf-8", errors="replace")
            self.url = next((listening_url(line) for line in text.splitlines() if listening_url(line)), None)
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"the server did not start: {text[-500:]}")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()

    def cpu_s(self):
        """User and system time so far, of the process alone."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def request(self, path, body=None, retry=(503,), timeout_s=120):
        """(status, JSON) of a response. Requests are repeated while the catalog or the index is loaded (503)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with urllib.request.urlopen(request, timeout=timeout_s) as reply:
                    return reply.status, json.load(reply)
            except urllib.error.HTTPError as error:
                if error.code not in retry or time.monotonic() > deadline:
                    raise SystemExit(f"{path}: {error.code} {error.read().decode()[:500]}") from error
                time.sleep(0.1)

    def ask(self, question, **more):
        """(answer, seconds)."""
        began = time.monotonic()
        _, answer = self.request("/v1/answers", {"question": question} | more)
        while "outcome" not in answer:
            time.sleep(0.1)
            _, answer = self.request(f"/v1/answers/{answer['id']}", retry=(404, 503))
        return answer, time.monotonic() - began


def listening_url(line):
    if "127.0.0.1:" not in line or not ("started" in line or line.startswith("http://")):
        return None
    return "http://127.0.0.1:" + line.split("127.0.0.1:")[1].split('"')[0].split()[0].strip(",}")


class Sim:
    """The simulated provider (tests/sim), until the end of a `with` block. Settings are those of `sim serve`, `__` for `.`."""

    def __init__(self, bench, *words, **settings):
        options = [word for name, value in settings.items()
                   for word in (f"--{name.replace('__', '.')}", value if isinstance(value, str) else json.dumps(value))]
        command = [str(bench.sim), "serve", "--port", "0", *map(str, words), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the simulated provider did not start: {' '.join(command)}")
        self.address, self.base_url = json.loads(line)["address"], json.loads(line)["base_url"]
        self.env = {"STEMMA_MODEL__NAME": "simulated", "STEMMA_MODEL__BASE_URL": self.base_url}

    def report(self):
        with urllib.request.urlopen(f"http://{self.address}/report", timeout=60) as reply:
            return json.load(reply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.process.stdout.close()


class Bench:
    """One run of a command: its options, its scratch folder and its results."""

    def __init__(self, command, options):
        self.command, self.options = command, options
        self.data_folder = Path(options.data) if options.data else None
        self.scratch = Path(tempfile.mkdtemp(prefix="stemma-bench-"))
        self.missed, self.printed = [], False
        self.built = {}
        self.commit = None
        self.out = open(options.out, "a", encoding="utf-8") if options.out else None

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self.out:
            self.out.close()
        for measure_name in self.missed:
            print(f"missed: {measure_name}")
        return 1 if self.missed else 0

    # ---- binaries ----

    def cargo(self, package, kind, name):
        """A release binary or example of this tree."""
        if name not in self.built:
            subprocess.run(["cargo", "build", "--quiet", "--locked", "--release", "-p", package, f"--{kind}", name], cwd=ROOT, check=True)
            target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
            self.built[name] = target / ("examples" if kind == "example" else "") / name
        return self.built[name]

    @property
    def stemma(self):
        return Path(self.options.stemma).resolve() if self.options.stemma else self.cargo("stemma", "bin", "stemma")

    @property
    def sim(self):
        return Path(self.options.sim).resolve() if self.options.sim else self.cargo("stemma-sim", "bin", "sim")

    @property
    def binaries(self):
        """{"old": …, "new": …}, or only the new one."""
        old = {"old": Path(self.options.old).resolve()} if self.options.old else {}
        return old | {"new": self.stemma}

    def store(self, name, binary=None):
        return Store(binary or self.stemma, self.scratch / name)

    def generated(self, *options):
        """A folder of generated filings (tests/filings)."""
        folder = self.scratch / f"generated-{len(list(self.scratch.glob('generated-*')))}"
        subprocess.run([self.cargo("stemma-filings", "example", "write"), folder, *map(str, options)], check=True, stdout=subprocess.DEVNULL)
        return folder

    def in_turn(self, run, rounds):
        """{"old": figures, "new": figures} of `run(binary)`, binaries in turn. Of several rounds the least of each figure counts, because other
        work only adds to it; of memory the most."""
        runs = {name: [] for name in self.binaries}
        for _ in range(rounds):
            for name, binary in self.binaries.items():
                runs[name].append(run(binary))
        return {name: {figure: (max if "peak" in str(figure) else min)(row[figure] for row in rows) for figure in rows[0]} for name, rows in runs.items()}

    # ---- documents ----

    def data(self, *paths):
        """Paths below the folder of documents. Ends the command where one is missing."""
        if self.data_folder is None or not all((self.data_folder / path).exists() for path in paths):
            raise Skipped("no data")
        found = [self.data_folder / path for path in paths]
        return found[0] if len(found) == 1 else found

    def venv(self, *packages):
        """A Python with packages from PyPI, kept in target/tools."""
        folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools" / ("venv-" + "-".join(packages).translate(str.maketrans("<>=,. ", "------")))
        python = folder / "bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            done = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True)
            if done.returncode != 0:
                shutil.rmtree(folder)
                raise Skipped(f"{' '.join(packages)} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        return python

    # ---- results ----

    def wants(self, part):
        return not self.options.only or part in self.options.only.split(",")

    def record(self, measure_name, value, unit="", *, n=None, old=None, mark=None, met=None):
        """Adds a result. `old` is the value of the old binary; `mark` is a bound such as `>= .95`, or any text where `met` is known."""
        if self.commit is None:
            self.commit = self.options.commit or commit_of(Path(self.options.stemma).resolve().parent if self.options.stemma else ROOT)
        line = {"command": self.command, "commit": self.commit, "measure": measure_name, "value": value, "unit": unit, "n": n}
        if old is not None:
            line |= {"old": old, "ratio": value / old if old else None}
        if mark is not None:
            line |= {"mark": mark, "met": is_met(value, mark) if met is None else met}
            if not line["met"]:
                self.missed.append(f"{measure_name}: {shown(value)} {unit}, the mark is {mark}")
        if self.out:
            self.out.write(json.dumps(line) + "\n")
            self.out.flush()
        if not self.printed:
            print(header())
            self.printed = True
        print(row(line), flush=True)

    def record_halves(self, measure_name, rows, figure, unit="", mark=None):
        """The mean of `figure(row)` in each half. A mark holds for half B."""
        for half, own in by_half(rows).items():
            values = [value for value in map(figure, own) if value is not None]
            if values:
                self.record(f"{measure_name}, half {half}", mean(values), unit, n=len(values), mark=mark if half == "B" else None)

    def note(self, text):
        """An example or another explanation; not a result."""
        if self.options.details:
            print(f"    {text}", flush=True)


def commit_of(folder):
    """The commit of the working tree around a folder; `+` says that it has changes."""
    def git(*words):
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True).stdout.strip()

    commit = git("rev-parse", "--short", "HEAD")
    return (commit + ("+" if git("status", "--porcelain", "-uno") else "")) if commit else "unknown"


def is_met(value, mark):
    operator, bound = mark.split()
    # As people print figures: .957 is .96.
    value = round(value, 2) if abs(value) < 10 else value
    return value >= float(bound) if operator == ">=" else value <= float(bound)


def shown(value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1_000 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def header():
    return f"{'measure':<76}{'n':>8}{'value':>12} {'unit':<10}{'old':>12}{'new/old':>9}  mark"


def row(line):
    mark = f"{line['mark']} {'' if line['met'] else 'MISSED'}" if "mark" in line else ""
    text = f"{line['measure'][:75]:<76}{line['n'] if line['n'] is not None else '':>8}{shown(line['value']):>12} {line['unit']:<10}"
    old = f"{shown(line['old']):>12}{shown(line['ratio']):>9}" if "old" in line else " " * 21
    return f"{text}{old}  {mark}".rstrip()


def print_tables(paths):
    """Prints result files: one as it is, several side by side with the ratio of the last to the first."""
    files = [read_lines(path) for path in paths]
    if len(files) == 1:
        print(header())
        for line in files[0]:
            print(row(line))
        return
    values = [{(line["command"], line["measure"]): line for line in lines} for lines in files]
    names = list(dict.fromkeys(name for lines in values for name in lines))
    print(f"{'measure':<76}" + "".join(f"{lines[0]['commit'] if lines else '-':>14}" for lines in files) + f"{'last/first':>12}")
    for name in names:
        figures = [lines[name]["value"] if name in lines else None for lines in values]
        first, last = figures[0], figures[-1]
        ratio = last / first if isinstance(first, (int, float)) and isinstance(last, (int, float)) and first else None
        print(f"{' '.join(name)[:75]:<76}" + "".join(f"{shown(figure):>14}" for figure in figures) + f"{shown(ratio):>12}")


def parser_of(command, description):
    parser = argparse.ArgumentParser(prog=f"tests/bench/run {command}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = parser.add_argument_group("options of all commands")
    common.add_argument("--stemma", metavar="BINARY", help="measure this binary; without it, a release binary is built")
    common.add_argument("--old", metavar="BINARY", help="a binary of another commit to compare with, where the command can")
    common.add_argument("--sim", metavar="BINARY", help="a binary of the simulated provider; without it, one is built")
    common.add_argument("--data", metavar="FOLDER", default=os.environ.get("STEMMA_BENCH_DATA"), help="documents and questions [env: STEMMA_BENCH_DATA]")
    common.add_argument("--out", metavar="FILE", help="append the results to this file, as JSON lines")
    common.add_argument("--commit", metavar="NAME", help="name the measured binary so in results; without it, the commit of its folder")
    common.add_argument("--only", metavar="PART,…", help="only these parts of the command")
    common.add_argument("--details", action="store_true", help="also list what is missed (of half A) or differs")
    return parser
