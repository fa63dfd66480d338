"""A cluster of processes on real servers: limits, scale, rates, costs, search at scale, and behavior that takes too long for a test.

The servers are those in STEMMA_TEST_RABBITMQ, _REDIS and _S3, or private ones that tests/services starts. Parts:
  limit, rates          limits of a provider that all workers share; messages and calls per second
  scale, costs, many    model calls with more workers; costs per document and page; one very large job
  search, soak          10,000 generated filings: build, latency, memory, visibility, restart; then many clients for minutes
  stalls, healthy       `stemma why` names injected stalls, and never calls a healthy run stuck
  sigterm, rolling      processes stop cleanly under load
  interactive           interactive work proceeds while bulk work runs
"""

import re
import subprocess

from harness import ROOT, clean_environment

PARTS = {
    "limit": ("measure", "limit"), "rates": ("measure", "rates"), "scale": ("measure", "scale"), "costs": ("measure", "costs"), "many": ("measure", "many"),
    "search": ("find", "scale"), "soak": ("find", "soak"), "stalls": ("show", "stalls"), "healthy": ("show", "healthy"), "sigterm": ("show", "sigterm"),
    "rolling": ("show", "rolling"), "interactive": ("show", "interactive"),
}
# `  busiest minute  612 calls  (target <= 630: met)`
TABLE_ROW = re.compile(r"^  (\S.*?)  +(-?\d+(?:,\d{3})*(?:\.\d+)?)(?![\d,]) ?(.*?)(?:  \(target (.+): (met|MISSED)\))?$")
# `documents                                            600`, in the report of a run with faults
REPORT_ROW = re.compile(r"^(?=.{44} )(\S(?:(?! {2}\d).){0,43}?) +(-?\d+(?:,\d{3})*(?:\.\d+)?)(?![\d,]) ?((?! ).*)()()$")
# `ok  p95: 9.1 ms (at most 15)`
MARK_ROW = re.compile(r"^(ok|NO)  (.+?): (-?\d+(?:,\d{3})*(?:\.\d+)?) ?(\S*) \((.+)\)$")


def run_program(bench, label, command, env=None):
    """Runs a program of tests/cluster. Its figures become results; its other lines are printed as they are."""
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True,
                               env=clean_environment({"STEMMA_TEST_BIN": bench.stemma} | (env or {})))
    for line in process.stdout:
        line = line.rstrip()
        if found := MARK_ROW.match(line):
            met, name, value, unit, mark = found.groups()
        elif found := TABLE_ROW.match(line) or REPORT_ROW.match(line):
            name, value, unit, mark, met = found.groups()
        else:
            print(line, flush=True)
            continue
        bench.record(f"{label}: {name}", float(value.replace(",", "")), unit, mark=mark or None, met=met in ("met", "ok"))
    bench.record(f"{label}: passed", int(process.wait() == 0), mark=">= 1")


def main(bench):
    for part, (program, word) in PARTS.items():
        if not bench.wants(part):
            continue
        words, binary = [word], bench.cargo("stemma-cluster", "bin", program)
        if program == "find":
            words += [bench.scratch / "search"]
            if part == "search" and bench.options.documents:
                words += [bench.options.documents]
            if part == "soak" and not bench.wants("search"):
                run_program(bench, "search", [binary, "scale", *words[1:], 1_000])
        elif part in ("costs", "many") and bench.options.documents:
            words += ["--documents", bench.options.documents]
        run_program(bench, part, [binary, *words])


def add_arguments(parser):
    parser.add_argument("--documents", type=int, metavar="N", help="documents of search, costs and many")
