"""Some minutes of work under limits that the client knows, does not know, or learns from headers."""

import sys
from collections import Counter

from bench import SCRATCH, Sim, by_stage, check, finish, ingest, recorded
from paper import write

MINUTES = 4.5
SETTLED = 1
folder = write(SCRATCH / "filings", 12, sections=14, pages_each=4)
ways = sys.argv[1:] or ["known", "tokens", "reported", "unknown"]


def work(store, limits, known):
    """Ingests the folder under limits; returns the report."""
    rpm, tpm = limits
    settings = dict(model__requests_per_minute=rpm, model__tokens_per_minute=tpm) if known else {}
    behavior = dict(limits__requests_per_minute=rpm, limits__tokens_per_minute=tpm)
    headers = {"known": "all", "tokens": "all", "reported": "all", "unknown": "nothing"}[store]
    # A provider of unknown limits looks every few seconds, as real ones do.
    meter = "bucket" if store == "unknown" else "window"
    record = SCRATCH / f"{store}.jsonl"
    with Sim(known=False, record=record, latency__median_ms=300, latency__sigma=0.4, limits__headers=headers, limits__meter=meter, **behavior) as sim:
        ingest(store, folder, sim=sim, structure="llm", model__concurrency=32, **settings)
        return sim.report() | {"asked": recorded(record)}


with Sim(known=False) as sim:
    ingest("count", folder, sim=sim, structure="llm")
    free = sim.report()
calls, tokens = free["calls"], free["all"]["prompt_tokens"] + free["all"]["output_tokens"]
print(f"the work: {calls} calls ({by_stage(free)}), {tokens} tokens")
for way in ways:
    # The tighter limit takes MINUTES, the other half of that.
    tight, loose = 1 / MINUTES, 2 / MINUTES
    rpm, tpm = (calls * loose, tokens * tight) if way == "tokens" else (calls * tight, tokens * loose)
    report = work(way, (int(rpm) + 1, int(tpm) + 1), way in ("known", "tokens"))
    done, throttled = report["calls"], sum(minute[1] for minute in report["throttled_by_minute"])
    spent = report["all"]["prompt_tokens"] + report["all"]["output_tokens"]
    bound = 60 * max((done - throttled) / (int(rpm) + 1), spent / (int(tpm) + 1))
    worst = report["worst_minute"]
    print(f"\n== {way}: {int(rpm) + 1} requests, {int(tpm) + 1} tokens a minute; {done} calls in {report['seconds']:.0f} s, bound {bound:.0f} s; "
          f"busiest minute {worst['requests']} requests, {worst['tokens']} tokens; 429 per minute {report['throttled_by_minute']}")
    tens = Counter(ask["at_ms"] // 10_000 for ask in report["asked"] if ask["status"] != 429)
    print(f"       per 10 s: {[tens[ten] for ten in range(max(tens) + 1)]}")
    if way in ("known", "tokens"):
        check(report["seconds"] <= 1.08 * bound, f"{way}: {report['seconds'] / bound:.3f} of the bound, at most 1.08")
        check(worst["share"] <= 1.05, f"{way}: busiest 60 s {worst['share']:.3f} of the limit, at most 1.05")
    else:
        settled = report["throttled_by_minute"][SETTLED:]
        share = sum(minute[1] for minute in settled) / max(1, sum(minute[0] for minute in settled))
        check(share < 0.02, f"{way}: {share:.4f} of the calls answered 429 after the first minute, under 0.02")
        check(bound / report["seconds"] >= 0.85, f"{way}: {bound / report['seconds']:.3f} of the bound's rate, at least 0.85")
    check(report["repeated"] == 0, f"{way}: {report['repeated']} questions asked again that had been answered")
finish()
