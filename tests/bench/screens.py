"""Times the pages of a server: screens.py STEMMA STORE DOCUMENTS."""

import http.client
import json
import re
import sys
import time
import urllib.parse

import server

REQUESTS = 40
MARK_MS = 100
COMPANIES = 5_000


def main(stemma, store, documents):
    process, url = server.start(stemma, store, {"XDG_CACHE_HOME": f"{store}/cache"})
    address = url.removeprefix("http://")

    def get(path):
        """Milliseconds until the first byte, and the whole page."""
        connection = http.client.HTTPConnection(address, timeout=600)
        began = time.perf_counter()
        connection.request("GET", path, headers={"Accept": "text/html"})
        reply = connection.getresponse()
        first = (time.perf_counter() - began) * 1e3
        body = reply.read().decode()
        connection.close()
        return first, reply.status, body

    try:
        began = time.monotonic()
        wait_until_indexed(get, documents)
        print(f"{documents} documents, index complete after {time.monotonic() - began:.0f} s")
        print(f"{'screen':24} {'p50 ms':>8} {'p95 ms':>8} {'CPU ms':>8}")
        missed = []
        for name, path in screens(get, documents).items():
            times = []
            get(path(0))
            cpu = server.cpu_seconds(process)
            for number in range(1, REQUESTS + 1):
                first, status, _ = get(path(number))
                if status != 200:
                    raise SystemExit(f"{name}: {path(number)}: {status}")
                times.append(first)
            cpu = (server.cpu_seconds(process) - cpu) / REQUESTS * 1e3
            times.sort()
            p95 = times[int(REQUESTS * 0.95) - 1]
            print(f"{name:24} {times[REQUESTS // 2]:8.1f} {p95:8.1f} {cpu:8.1f}", flush=True)
            if p95 > MARK_MS:
                missed.append(name)
        print(f"above {MARK_MS} ms: {', '.join(missed) or 'none'}")
    finally:
        process.terminate()
        process.wait()


def wait_until_indexed(get, documents):
    while True:
        _, status, body = get("/v1/health")
        index = json.loads(body).get("index") if status == 200 else None
        if index and index["documents"] >= documents:
            return
        time.sleep(1)


def screens(get, documents):
    """Paths by name of the screen. No search is repeated, because results are cached."""
    def company(number):
        return f"Company {number * 7 % COMPANIES} Holdings Inc"

    def query(path, **params):
        return path + "?" + urllib.parse.urlencode(params)

    def locator(number):
        return f"company-{number * 7 % COMPANIES}-{number * 7 % COMPANIES}-10-K"

    cursors = [""]
    for _ in range(REQUESTS):
        _, _, body = get(query("/", cursor=cursors[-1]))
        cursors.append(re.search(r'rel="next" href="/\?cursor=([^"&]+)', body).group(1))
    _, _, body = get("/jobs")
    jobs = re.findall(r'href="(/jobs/j-[^"?]+)"', body)
    words = ["annual", "10-k", "report", "holdings", "business"]
    return {
        "archive": lambda number: "/",
        "archive, next pages": lambda number: "/?cursor=" + cursors[number],
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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
