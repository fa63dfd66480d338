"""Other programs on the same files: page texts of PyMuPDF, and CPU time and memory of edgartools and PyMuPDF next to Stemma.

Each program is installed from PyPI once, in the version named here, and runs in a process of its own.
  text  words that Stemma misses or invents and numbers that differ, page by page, where PyMuPDF reads otherwise
  pdf   CPU time per page and peak memory: `stemma ingest` of all development filings, and PyMuPDF that extracts their text
  html  CPU time per MB and peak memory: `stemma ingest` of each HTML filing alone, and edgartools that reads its sections, tables and text
"""

import json
import subprocess
from pathlib import Path

from harness import Store, document_name, half_of, measure

HERE = Path(__file__).parent
PYMUPDF, EDGARTOOLS = "pymupdf==1.26.7", "edgartools==5.62.1"
READ_PDF = "import sys, pymupdf\nfor path in sys.argv[1:]:\n    print(sum(len(page.get_text()) for page in pymupdf.open(path)))"
READ_HTML = """import sys
from edgar.documents import HTMLParser, ParserConfig
path = sys.argv[1]
form = "10-Q" if "10Q" in path else "10-K"
document = HTMLParser(ParserConfig(form=form)).parse(open(path, encoding="utf-8", errors="replace").read())
print(len(document.sections), len(document.tables), len(document.text()))"""


def text(bench):
    python = bench.venv(PYMUPDF)
    folders = bench.data("dev/pdf", "dev/more", "dev/general/pdf")
    pages = bench.store("text").ingest("--ocr", "never", *folders).pages(bench.scratch / "pages")
    known = [{"doc": document, "page": page, "text": own} for (document, page), own in pages.items()]
    done = subprocess.run([python, HERE / "page_texts.py", *folders], input="".join(json.dumps(row) + "\n" for row in known), text=True,
                          capture_output=True, check=True)
    rows = [row | {"half": half_of(row["doc"])} for row in map(json.loads, done.stdout.splitlines())]
    words = sum(row["words"] for row in rows)
    for figure in ("missing", "invented"):
        bench.record(f"words of PyMuPDF: {figure}", 100 * sum(len(row[figure]) for row in rows) / max(1, words), "%", n=words)
    bench.record("numbers that differ from PyMuPDF's", sum(len(row["changed"]) for row in rows), n=len(rows))
    bench.record_halves("order of words as in PyMuPDF", rows, lambda row: row["order"])
    for row in sorted(rows, key=lambda row: -len(row["missing"]) / max(1, row["words"]))[:25]:
        if row["half"] != "B":
            bench.note(f"{row['doc']} p {row['page']}: missing {row['missing'][:8]}, invented {row['invented'][:8]}, changed {row['changed'][:6]}")


def pdf(bench):
    python, files = bench.venv(PYMUPDF), sorted(bench.data("dev/pdf").glob("*.pdf"))
    store = bench.store("pdf")
    ours = measure(store.command("-q", "ingest", "--ocr", "never", *files))
    pages = len(store.pages(bench.scratch / "pdf-pages"))
    for name, usage in (("Stemma, trees and index input", ours), (f"{PYMUPDF}, text", measure([python, "-c", READ_PDF, *files]))):
        bench.record(f"PDF: {name}, CPU per page", usage.cpu_s * 1e3 / max(1, pages), "ms", n=pages)
        bench.record(f"PDF: {name}, peak memory", usage.peak_bytes / 1e6, "MB", n=pages)


def html(bench):
    python, files = bench.venv(EDGARTOOLS), sorted(bench.data("html/filings").glob("*.htm"))
    runs = {"Stemma": lambda path: Store(bench.stemma, bench.scratch / f"html-{document_name(path)}").command("-q", "ingest", path),
            EDGARTOOLS: lambda path: [python, "-c", READ_HTML, path]}
    for name, command in runs.items():
        used = [(measure(command(path)), path.stat().st_size) for path in files]
        megabytes = sum(size for _, size in used) / 1e6
        bench.record(f"HTML: {name}, CPU per MB", sum(usage.cpu_s for usage, _ in used) / megabytes, "s", n=len(files))
        bench.record(f"HTML: {name}, peak memory at most", max(usage.peak_bytes for usage, _ in used) / 1e6, "MB", n=len(files))
        bench.record(f"HTML: {name}, files that fail", sum(usage.status != 0 for usage, _ in used), n=len(files))


def main(bench):
    for run in (text, pdf, html):
        if bench.wants(run.__name__):
            run(bench)
