"""Pages for people over a large archive: time to the first byte, CPU time, and until a browser has painted; also for hostile documents.

  screens  the pages over a generated archive of --documents filings, each a file; 1,000,000 need some 14 GB
  hostile  documents with as many sections and Items and with a title as long as no person writes, and with markup in their titles
  images   page images of a filing, the first time and from the cache

Browser times need Chromium and the tools that tests/web/run installs; without them they are skipped.
"""

import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import time
import urllib.parse
from pathlib import Path

from harness import ROOT, Server, Store, clean_environment, percentile

REQUESTS, HOSTILE_REQUESTS = 40, 10
MARK_MS, HOSTILE_MARK_MS, PAINT_MARK_MS = 100, 1_000, 200
COMPANIES = 5_000
HOSTILE_SECTIONS, HOSTILE_TITLE_BYTES = 100_000, 1 << 20
MARKUP = '<script>window.attacked = true</script>\u202e\x1b[31m"onload=x <img src=x onerror="window.attacked = true">'


class Pages(Server):
    """The pages of a store."""

    def get(self, path):
        """Milliseconds until the first byte and until the last one, and the page."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=600)
        began = time.perf_counter()
        connection.request("GET", path, headers={"Accept": "*/*" if path.startswith("/v1/") else "text/html"})
        reply = connection.getresponse()
        first = (time.perf_counter() - began) * 1e3
        body = reply.read()
        last = (time.perf_counter() - began) * 1e3
        connection.close()
        # A comparison says that a document is too large for it.
        if reply.status != 200 and not (reply.status == 422 and path.startswith("/compare?")):
            raise SystemExit(f"{path}: {reply.status} {body[:500].decode()}")
        return first, last, body

    def text(self, path):
        return self.get(path)[2].decode()

    def wait_until_indexed(self, documents):
        while (self.request("/v1/health", retry=(503,), timeout_s=3_600)[1].get("index") or {}).get("documents", 0) < documents:
            time.sleep(0.5)

    def time(self, bench, screens, requests, mark_ms):
        for name, path in screens.items():
            self.get(path(0))
            before, firsts, lasts = self.cpu_s(), [], []
            for number in range(1, requests + 1):
                first, last, _ = self.get(path(number))
                firsts.append(first)
                lasts.append(last)
            bench.record(f"{name}: first byte, p95", percentile(firsts, 95), "ms", n=requests, mark=f"<= {mark_ms}")
            bench.record(f"{name}: last byte, p95", percentile(lasts, 95), "ms", n=requests)
            bench.record(f"{name}: CPU", (self.cpu_s() - before) / requests * 1e3, "ms", n=requests)

    def time_in_browser(self, bench, screens, paint_mark_ms):
        tools = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools/web"
        if not (tools / "node_modules").is_dir() or not shutil.which("chromium"):
            print("in a browser: skipped, tests/web/run installs what it needs")
            return
        for script in (ROOT / "tests/web").glob("*.mjs"):
            shutil.copy(script, tools)
        env = clean_environment({"STEMMA_CHROMIUM": shutil.which("chromium")})
        done = subprocess.run(["node", "times.mjs", self.url], cwd=tools, env=env, input=json.dumps(screens), text=True, capture_output=True, check=True)
        for row in map(json.loads, done.stdout.splitlines()):
            bench.record(f"{row['screen']}: first paint", row["paint"], "ms", mark=f"<= {paint_mark_ms}")
            bench.record(f"{row['screen']}: loaded", row["load"], "ms", mark=f"<= {HOSTILE_MARK_MS}")
            bench.record(f"{row['screen']}: defects in the browser", len(row["defects"]), mark="<= 0")
            for defect in row["defects"]:
                bench.note(defect)


def query(path, **params):
    return path + "?" + urllib.parse.urlencode(params)


def screens(bench):
    documents = bench.options.documents
    folder = Path(bench.options.store or bench.scratch / "archive")
    if not (folder / "complete").exists():
        subprocess.run([bench.cargo("stemma-archive", "example", "generated_archive"), folder, str(documents)], check=True)
        (folder / "complete").touch()
    with Pages(Store(bench.stemma, folder), env={"XDG_CACHE_HOME": folder / "cache"}) as pages:
        began = time.monotonic()
        pages.wait_until_indexed(documents)
        bench.record("index complete after", time.monotonic() - began, "s", n=documents)
        paths = archive_screens(pages)
        pages.time(bench, paths, REQUESTS, MARK_MS)
        # Searches are answered from the cache now: what they cost is above.
        pages.time_in_browser(bench, {name: path(1) for name, path in paths.items()}, PAINT_MARK_MS)


def archive_screens(pages):
    """Paths by name of the screen. No search is repeated, because results are cached."""
    def company(number):
        return f"Company {number * 7 % COMPANIES} Holdings Inc"

    def locator(number):
        return f"company-{number * 7 % COMPANIES}-{number * 7 % COMPANIES}-10-K"

    def next_pages(**params):
        cursors = [""]
        for _ in range(REQUESTS):
            found = re.search(r'rel="next" href="/\?(?:[^"]*&amp;)?cursor=([^"&]+)', pages.text(query("/", cursor=cursors[-1], **params)))
            cursors.append(found.group(1) if found else "")
        return lambda number: query("/", cursor=cursors[number], **params)

    jobs = re.findall(r'href="(/jobs/j-[^"?]+)"', pages.text("/jobs"))
    words = ["annual", "10-k", "report", "holdings", "business"]
    sorts = ["-path", "company", "form", "-fiscal_year", "-pages", "-doubt", "status", "-published"]
    return {
        "archive": lambda number: "/",
        "archive, next pages": next_pages(),
        **{f"archive, sorted by {sort}": lambda number, sort=sort: query("/", sort=sort) for sort in sorts},
        "archive, pages by company": next_pages(sort="company"),
        "archive, pages by -published": next_pages(sort="-published"),
        "archive, year by company": lambda number: query("/", fiscal_year=2000 + number % 20, sort="company"),
        "archive, form": lambda number: query("/", form="10-K"),
        "archive, year": lambda number: query("/", fiscal_year=2000 + number % 20),
        "archive, company": lambda number: query("/", company=company(number)),
        "archive, frequent word": lambda number: query("/", q=words[number % 5]),
        "archive, word of a path": lambda number: query("/", q=f"company-{number * 7}-"),
        "archive, no such word": lambda number: query("/", q=f"absent{number}"),
        "document": lambda number: "/documents/" + locator(number),
        "search, frequent words": lambda number: query("/search", q=f"annual report risk factors {number}"),
        "search, a company": lambda number: query("/search", q=f"annual report of {company(number)}"),
        "search, not here": lambda number: query("/search", q=f"zirconium{number} plasma"),
        "compare": lambda number: query("/compare", left=locator(number), right=locator(number + 1)),
        "jobs": lambda number: "/jobs",
        "job": lambda number: jobs[number % len(jobs)],
        "health": lambda number: "/health",
        "ask": lambda number: "/ask",
    }


def hostile(bench):
    folder = bench.scratch / "hostile"
    folder.mkdir()
    many = (f"{'#' * (number % 3 + 1)} {number} {MARKUP}\n\nText of section {number}.\n" for number in range(HOSTILE_SECTIONS))
    (folder / "many.md").write_text("\n".join(many), encoding="utf-8")
    items = (f"# Item {number % 90 + 1}. {MARKUP}\n\nText of Item {number}.\n" for number in range(HOSTILE_SECTIONS))
    (folder / "items.md").write_text("\n".join(items), encoding="utf-8")
    (folder / "long.md").write_text(f"# {MARKUP}{'W' * HOSTILE_TITLE_BYTES}\n\nText below a long title.\n", encoding="utf-8")
    (folder / "plain.md").write_text("# Plain\n\nText of a plain section.\n", encoding="utf-8")
    with Pages(bench.store("hostile-store").ingest(folder)) as pages:
        pages.wait_until_indexed(4)
        jobs = re.findall(r'href="(/jobs/j-[^"?]+)"', pages.text("/jobs"))
        paths = {"archive": "/", "jobs": "/jobs", "job": jobs[0], "health": "/health", "ask": "/ask"}
        for name in ("many", "items", "long"):
            for view in ("", "at=0001", "view=items", "view=tables", "view=facts", "view=about"):
                paths[f"{name} {view}"] = f"/documents/{name}?{view}"
            paths[f"compare {name}"] = query("/compare", left=name, right="plain")
        for name in ("many", "items"):
            sections = json.loads(pages.text(f"/v1/documents/{name}"))["document"]["sections"]
            paths[f"{name}, last section"] = f"/documents/{name}?at={sections - 1:04}"
        bare = [name for name, path in paths.items() if "<script>window" in pages.text(path)]
        bench.record("hostile: pages with markup of a title that is not escaped", len(bare), n=len(paths), mark="<= 0")
        pages.time_in_browser(bench, paths, HOSTILE_MARK_MS)
        timed = {f"hostile: {name}": lambda number, path=path: path for name, path in paths.items()}
        timed["hostile: search"] = lambda number: query("/search", q=f"text of section {number}")
        pages.time(bench, timed, HOSTILE_REQUESTS, HOSTILE_MARK_MS)


def images(bench):
    file = min(bench.data("dev/pdf").glob("*10K.pdf"), default=None) or min(bench.data("dev/pdf").glob("*.pdf"))
    with Pages(bench.store("images").ingest("--ocr", "never", file)) as pages:
        pages.wait_until_indexed(1)
        document = pages.request("/v1/documents")[1]["items"][0]
        paths = [f"/v1/documents/{document['doc_id']}/pages/{page}/image" for page in range(1, min(20, document.get("pages") or 20) + 1)]
        first = [pages.get(path)[1] for path in paths]
        cached = [pages.get(path)[1] for _ in range(5) for path in paths]
    bench.record("page image, the first time, median", statistics.median(first), "ms", n=len(first))
    bench.record("page image, cached, p95", percentile(cached, 95), "ms", n=len(cached), mark="<= 5")


def main(bench):
    for run in (screens, hostile, images):
        if bench.wants(run.__name__):
            run(bench)


def add_arguments(parser):
    parser.add_argument("--documents", type=int, default=100_000, metavar="N", help="filings of the generated archive [default: 100000]")
    parser.add_argument("--store", metavar="FOLDER", help="keep the generated archive and its index in this folder")
