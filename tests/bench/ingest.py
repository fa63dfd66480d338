"""CPU time, memory and storage of ingesting a folder, once and again.

With --old, both binaries run in turn. Of all rounds the least time counts, because other work on the machine only adds to it, and the
most memory. --generated N ingests generated filings instead of a folder.
"""

from pathlib import Path

from harness import INGESTED, Store, measure


def add_arguments(parser):
    parser.add_argument("folders", nargs="*", help="files or folders [default: dev/pdf of the data]")
    parser.add_argument("--generated", type=int, metavar="N", help="ingest N generated filings of 12 pages")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each binary [default: 3]")


def main(bench):
    options = bench.options
    if options.generated:
        folders = [bench.generated("--count", options.generated, "--pages", 12, "--kind", "all", "--contents", "mixed", "--pdf-only")]
        for truth in folders[0].rglob("*.json"):
            truth.unlink()
    else:
        folders = [Path(folder) for folder in options.folders] or [bench.data("dev/pdf")]
    pages = {}
    count = 0

    def run(binary):
        nonlocal count
        count += 1
        store = Store(binary, bench.scratch / f"store-{count}")
        command = store.command("-q", "ingest", *folders)
        first, second = measure(command), measure(command)
        if first.status not in INGESTED:
            raise SystemExit(f"{binary}: exit {first.status}: {first.errors[-500:]}")
        if binary not in pages:
            pages[binary] = store.pages(bench.scratch / "pages")
        documents = len({document for document, _ in pages[binary]})
        stored = [path for path in store.folder.rglob("*") if path.is_file()]
        return {
            ("CPU per page", "ms"): first.cpu_s * 1e3 / max(1, len(pages[binary])),
            ("CPU", "s"): first.cpu_s,
            ("time", "s"): first.wall_s,
            ("peak memory", "MB"): first.peak_bytes / 1e6,
            ("CPU, second run", "s"): second.cpu_s,
            ("peak memory, second run", "MB"): second.peak_bytes / 1e6,
            ("files of the store per document", ""): len(stored) / max(1, documents),
            ("store per page", "kB"): sum(path.stat().st_size for path in stored) / 1e3 / max(1, len(pages[binary])),
        }

    figures = bench.in_turn(run, options.rounds)
    for (name, unit), value in figures["new"].items():
        bench.record(name, value, unit, n=len(pages[bench.stemma]), old=figures.get("old", {}).get((name, unit)))
