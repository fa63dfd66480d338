"""Published clients against a running server: the SDKs of MCP, PageIndex and OpenAI, and schemathesis.

Each installs its client from PyPI once. What is counted are checks that hold and that fail; --details prints the log of those that fail.
  mcp        the Python SDK over stdio and HTTP: generated calls fit their schemas and sizes, and agents written for PageIndex reach a passage
  pageindex  the SDKs of PageIndex and OpenAI against `stemma serve` with a simulated model; needs no data
  openapi    schemathesis: no response is a 5xx or differs from /openapi.json; arbitrary values, then names of an existing document
"""

import re
import subprocess
from pathlib import Path

from harness import Server, Sim

HERE = Path(__file__).parent
KEY = "a-key-of-the-bench"
# The BLAKE3 digest of KEY.
KEY_DIGEST = "b571fa95d3a79988bb753193efbacad127079151dccdd1484a1415e253f12a27"


def record_checks(bench, part, output):
    lines = output.splitlines()
    failed = [line for line in lines if line.startswith("FAILED")]
    bench.record(f"{part}: checks that hold", sum(line.startswith("ok ") for line in lines), mark=">= 1")
    bench.record(f"{part}: checks that fail", len(failed), mark="<= 0")
    for line in failed:
        bench.note(line)


def mcp(bench):
    python = bench.venv("mcp>=2.3,<3", "jsonschema>=4")
    store = bench.store("mcp").ingest("--ocr", "never", bench.data("dev/pdf"))
    count = bench.options.count_tokens or bench.cargo("stemma-llm", "example", "count_tokens")
    command = [python, HERE / "client_mcp.py", "--stemma", store.binary, "--store", store.folder, "--count", count, "--calls", str(bench.options.calls),
               "--scratch", bench.scratch]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3_600)
    record_checks(bench, "mcp", done.stdout + ("" if done.returncode in (0, 1) and done.stdout else f"FAILED  {done.stderr[-500:]}"))


def pageindex(bench):
    python = bench.venv("pageindex>=0.4,<0.5", "openai>=2")
    filings = bench.generated("--count", 3, "--pages", 16, "--seed", 7, "--kind", "ten-k", "--texts", 1)
    folder = bench.scratch / "filings"
    folder.mkdir()
    filings.rename(folder / "10-K")
    more = bench.generated("--count", 1, "--pages", 12, "--seed", 99, "--kind", "ten-k", "--pdf-only")
    with Sim(bench) as sim:
        store = bench.store("pageindex")
        store.env = sim.env | {"STEMMA_STRUCTURE": "layout"}
        store.ingest(folder)
        with Server(store, "serve") as server:
            command = [python, HERE / "client_pageindex.py", server.url, next(more.glob("*.pdf"))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            log = Path(server.log.name).read_text(errors="replace")
    errors = [f"FAILED  the log has an error: {line}" for line in log.splitlines() if " ERROR " in line or "panic" in line]
    ended = [] if done.returncode == 0 else [f"FAILED  {done.stderr.strip()[-300:]}"]
    record_checks(bench, "pageindex", "\n".join([done.stdout, *errors, *ended]))


def openapi(bench):
    schemathesis = bench.venv("schemathesis>=4").parent / "schemathesis"
    store = bench.store("openapi").ingest("--ocr", "never", bench.data("dev/pdf"))
    config = bench.scratch / "keys.toml"
    config.write_text(f'[[query.keys]]\nname = "bench"\nblake3 = "{KEY_DIGEST}"\nscopes = ["read", "ask"]\n')
    authorization = f"Bearer {KEY}"
    with Sim(bench, latency__median_ms=0) as sim, Server(store, "--config", config, "query", env=sim.env, headers={"Authorization": authorization}) as server:
        _, listed = server.request("/v1/documents?status=done&form=10-K&limit=1")
        names = bench.scratch / "names.toml"
        names.write_text(f'[parameters]\n"path.doc" = "{listed["items"][0]["locator"]}"\n"path.id" = "0002"\n"path.item" = "1A"\n'
                         '"path.path" = "@form"\n"path.model" = "default"\n')
        for label, options in (("arbitrary values", []), ("an existing document", ["--config-file", names])):
            # Not positive_data_acceptance: a cursor, a filter or a name can have the right form and still name nothing.
            command = [schemathesis, *options, "run", f"{server.url}/openapi.json", "--header", f"Authorization: {authorization}", "--checks", "all",
                       "--exclude-checks", "positive_data_acceptance", "--max-examples", str(bench.options.examples), "--seed", "1", "--workers", "1",
                       "--request-timeout", "30", "--no-color", "--continue-on-failure"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=bench.scratch, timeout=7_200)
            found = re.findall(r"^_+ (\S+ /\S*) _+$", done.stdout, re.M)
            bench.record(f"openapi, {label}: routes with a failure", len(found) or int(done.returncode != 0), mark="<= 0")
            _, _, failures = done.stdout.partition("= FAILURES =")
            for line in failures.partition("= WARNINGS =")[0].splitlines()[1:60]:
                bench.note(line)
        log = Path(server.log.name).read_text(errors="replace")
        bench.record("openapi: warnings and errors in the server's log", len(re.findall(r'"level":"(?:WARN|ERROR)"| (?:WARN|ERROR) ', log)), mark="<= 0")


def main(bench):
    for run in (mcp, pageindex, openapi):
        if bench.wants(run.__name__):
            run(bench)


def add_arguments(parser):
    parser.add_argument("--calls", type=int, default=1_000, metavar="N", help="generated calls of `mcp` over each transport [default: 1000]")
    parser.add_argument("--examples", type=int, default=100, metavar="N", help="cases per route of `openapi` [default: 100]")
    parser.add_argument("--count-tokens", metavar="BINARY", help="the example count_tokens of stemma-llm; without it, it is built")
