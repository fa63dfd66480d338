"""Times the pages of a server, and in a browser if TOOLS has one: screens.py STEMMA STORE DOCUMENTS SCRATCH [TOOLS]."""

import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse

import server

REQUESTS = 40
MARK_MS = 100
COMPANIES = 5_000
HOSTILE_REQUESTS = 10
HOSTILE_MARK_MS = 1_000
PAINT_MARK_MS = 200
HOSTILE_SECTIONS = 100_000
HOSTILE_TITLE_BYTES = 1 << 20
MARKUP = '<script>window.attacked = true</script>\u202e\x1b[31m"onload=x <img src=x onerror="window.attacked = true">'


class Pages:
    """The pages of a store."""

    def __init__(self, stemma, store):
        self.process, url = server.start(stemma, store, {"XDG_CACHE_HOME": f"{store}/cache"})
        self.address = url.removeprefix("http://")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        """Milliseconds until the first byte, until the last one, and the whole page."""
        connection = http.client.HTTPConnection(self.address, timeout=600)
        began = time.perf_counter()
        accepted = "application/json" if path.startswith("/v1/") else "text/html"
        connection.request("GET", path, headers={"Accept": accepted})
        reply = connection.getresponse()
        first = (time.perf_counter() - began) * 1e3
        body = reply.read().decode()
        last = (time.perf_counter() - began) * 1e3
        connection.close()
        return first, last, reply.status, body

    def body(self, path):
        _, _, status, body = self.get(path)
        if not is_answered(path, status):
            raise SystemExit(f"{path}: {status} {body[:500]}")
        return body

    def wait_until_indexed(self, documents):
        while True:
            _, _, status, body = self.get("/v1/health")
            # 503: the catalog is still loading.
            if status not in (200, 503):
                raise SystemExit(f"/v1/health: {status} {body[:500]}")
            index = json.loads(body).get("index") if status == 200 else None
            if index and index["documents"] >= documents:
                return
            time.sleep(1)

    def time(self, screens, requests, mark_ms):
        """Prints the times of screens, and which are above a mark."""
        print(f"{'screen':28} {'p50 ms':>8} {'p95 ms':>8} {'last byte':>9} {'CPU ms':>8} {'KB':>7}")
        missed = []
        for name, path in screens.items():
            firsts, lasts, size = [], [], 0
            self.get(path(0))
            cpu = server.cpu_seconds(self.process)
            for number in range(1, requests + 1):
                first, last, status, body = self.get(path(number))
                if not is_answered(path(number), status):
                    raise SystemExit(f"{name}: {path(number)}: {status} {body[:500]}")
                firsts.append(first)
                lasts.append(last)
                size = max(size, len(body))
            cpu = (server.cpu_seconds(self.process) - cpu) / requests * 1e3
            p50, p95 = percentile(firsts, 50), percentile(firsts, 95)
            print(f"{name:28} {p50:8.1f} {p95:8.1f} {percentile(lasts, 95):9.1f} {cpu:8.1f} {size / 1e3:7.1f}", flush=True)
            if p95 > mark_ms:
                missed.append(name)
        print(f"above {mark_ms} ms: {', '.join(missed) or 'none'}")

    def time_in_browser(self, screens, tools, paint_mark_ms, load_mark_ms):
        """Prints when a browser has painted and loaded screens; nothing without a folder of tools."""
        if tools is None:
            print("in a browser: skipped, tests/web/run installs what it needs")
            return
        marks = [str(paint_mark_ms), str(load_mark_ms)]
        command = ["node", "times.mjs", f"http://{self.address}", *marks]
        # Not for the server, which refuses settings that it does not know.
        env = os.environ | {"STEMMA_CHROMIUM": shutil.which("chromium")}
        subprocess.run(command, cwd=tools, env=env, input=json.dumps(screens), text=True, check=True)


def is_answered(path, status):
    """A comparison says that a document is too large for it."""
    return status == 200 or status == 422 and path.startswith("/compare?")


def percentile(times, share):
    return sorted(times)[max(len(times) * share // 100 - 1, 0)]


def query(path, **params):
    return path + "?" + urllib.parse.urlencode(params)


def archive(stemma, store, documents, tools):
    with Pages(stemma, store) as pages:
        began = time.monotonic()
        pages.wait_until_indexed(documents)
        print(f"{documents} documents, index complete after {time.monotonic() - began:.0f} s")
        screens = archive_screens(pages)
        pages.time(screens, REQUESTS, MARK_MS)
        # Searches are answered from the cache now: what they cost stands above.
        paths = {name: path(1) for name, path in screens.items()}
        pages.time_in_browser(paths, tools, PAINT_MARK_MS, HOSTILE_MARK_MS)


def archive_screens(pages):
    """Paths by name of the screen. No search is repeated, because results are cached."""
    def company(number):
        return f"Company {number * 7 % COMPANIES} Holdings Inc"

    def locator(number):
        return f"company-{number * 7 % COMPANIES}-{number * 7 % COMPANIES}-10-K"

    def next_pages(**params):
        cursors = [""]
        for _ in range(REQUESTS):
            body = pages.body(query("/", cursor=cursors[-1], **params))
            cursors.append(re.search(r'rel="next" href="/\?(?:[^"]*&amp;)?cursor=([^"&]+)', body).group(1))
        return lambda number: query("/", cursor=cursors[number], **params)

    jobs = re.findall(r'href="(/jobs/j-[^"?]+)"', pages.body("/jobs"))
    words = ["annual", "10-k", "report", "holdings", "business"]
    # A binary from before lists were sorted refuses the parameter in its API.
    sorts = ["-path", "company", "form", "-fiscal_year", "-pages", "-doubt", "status", "-published"]
    is_sorted = pages.get("/v1/documents?limit=1&sort=path")[2] == 200
    sorted_screens = {}
    if is_sorted:
        for sort in sorts:
            sorted_screens[f"archive, sorted by {sort}"] = lambda number, sort=sort: query("/", sort=sort)
        sorted_screens["archive, pages by company"] = next_pages(sort="company")
        sorted_screens["archive, pages by -published"] = next_pages(sort="-published")
        sorted_screens["archive, year by company"] = lambda number: query("/", fiscal_year=2000 + number % 20, sort="company")
    return {
        "archive": lambda number: "/",
        "archive, next pages": next_pages(),
        **sorted_screens,
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


def hostile(stemma, scratch, tools):
    """Documents with as many sections, as many Items, and a title as long, as no person writes; with markup in their titles."""
    folder = scratch / "hostile"
    folder.mkdir()
    many = (f"{'#' * (number % 3 + 1)} {number} {MARKUP}\n\nText of section {number}.\n" for number in range(HOSTILE_SECTIONS))
    (folder / "many.md").write_text("\n".join(many), encoding="utf-8")
    items = (f"# Item {number % 90 + 1}. {MARKUP}\n\nText of Item {number}.\n" for number in range(HOSTILE_SECTIONS))
    (folder / "items.md").write_text("\n".join(items), encoding="utf-8")
    title = "W" * HOSTILE_TITLE_BYTES
    (folder / "long.md").write_text(f"# {MARKUP}{title}\n\nText below a long title.\n", encoding="utf-8")
    (folder / "plain.md").write_text("# Plain\n\nText of a plain section.\n", encoding="utf-8")
    store = scratch / "hostile-store"
    subprocess.run([stemma, "--store", store, "-q", "ingest", folder], check=True, stdout=subprocess.DEVNULL)
    with Pages(stemma, store) as pages:
        pages.wait_until_indexed(4)
        jobs = re.findall(r'href="(/jobs/j-[^"?]+)"', pages.body("/jobs"))
        screens = {"archive": "/", "jobs": "/jobs", "job": jobs[0], "health": "/health", "ask": "/ask"}
        for name in ["many", "items", "long"]:
            for view in ["", "at=0001", "view=items", "view=tables", "view=facts", "view=about"]:
                screens[f"{name} {view}"] = f"/documents/{name}?{view}"
            screens[f"compare {name}"] = query("/compare", left=name, right="plain")
        for name in ["many", "items"]:
            sections = json.loads(pages.body(f"/v1/documents/{name}"))["document"]["sections"]
            screens[f"{name}, last section"] = f"/documents/{name}?at={sections - 1:04}"
            print(f"hostile document `{name}`: {sections} sections")
        for name, path in screens.items():
            if "<script>window" in pages.body(path):
                raise SystemExit(f"{name}: {path}: a title is not escaped")
        pages.time_in_browser(screens, tools, HOSTILE_MARK_MS, HOSTILE_MARK_MS)
        timed = {name: lambda number, path=path: path for name, path in screens.items()}
        timed["search"] = lambda number: query("/search", q=f"text of section {number}")
        pages.time(timed, HOSTILE_REQUESTS, HOSTILE_MARK_MS)


if __name__ == "__main__":
    tools_folder = sys.argv[5] if len(sys.argv) > 5 else None
    archive(sys.argv[1], sys.argv[2], int(sys.argv[3]), tools_folder)
    hostile(sys.argv[1], pathlib.Path(sys.argv[4]), tools_folder)
