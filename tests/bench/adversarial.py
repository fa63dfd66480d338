#!/usr/bin/env python3
"""Ingest hostile files one by one and in one batch, and check every expectation of their manifest.

  adversarial.py --data FOLDER --stemma BINARY --scratch FOLDER [--verbose]

The manifest's `expect` settles whether there is a tree; its `nodes`, `node_count` and `pages` are compared with the
tree; what `must` says in words is a row of MUST here. Every file is also held to the manners of all commands: no panic,
one line per error, no control characters, valid ranges, unique ids, 30 s and 1 GB for the whole tree of processes.
"""
import argparse
import ctypes
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import PR_SET_CHILD_SUBREAPER, tree_rss  # noqa: E402

MAX_SECONDS = 30
MAX_BYTES = 1e9
# Pages that are pictures are read where it is installed.
TESSERACT = shutil.which("tesseract") is not None
EIGHT = ["Overview", "Business", "Risk Factors", "Results", "Liquidity", "Controls", "Exhibits", "Signatures"]
# Bounds of single files that the manifest puts lower than those of all.
LOWER = {"md_10mb_single_line.md": (10, 500e6), "md_50k_headings.md": (10, MAX_BYTES), "md_nested_brackets.md": (10, MAX_BYTES),
         "dot_leaders_redos.pdf": (10, MAX_BYTES), "outline_5000.pdf": (10, MAX_BYTES), "page_5mb_text.pdf": (30, MAX_BYTES)}


class Seen:
    """What one file came to."""

    def __init__(self, answer, tree, shown):
        self.code, self.answer, self.tree, self.shown = answer["exit"], answer["json"], tree, shown
        failures = self.answer.get("failures") or []
        self.failure = failures[0] if failures else None
        self.gaps = {(gap["code"], tuple(gap["pages"]) if gap.get("pages") else None): gap["detail"]
                     for gap in (tree or {}).get("gaps", [])} if tree else {}
        self.nodes = list(walk(tree["structure"])) if tree else []
        self.titles = [node["title"] for _, node in self.nodes]
        self.headings = [(depth, node) for depth, node in self.nodes if node.get("kind", "heading") == "heading"]

    def sections(self, *titles):
        """These titles as headings, in this order, and no others."""
        return same([node["title"] for _, node in self.headings], list(titles), "titles")

    def on_pages(self, titles, first=1):
        """These headings and no others, one per page."""
        want = [(title, first + at) for at, title in enumerate(titles)]
        return same(self.places(), want, "titles and pages")

    def has_on(self, *wanted):
        """These headings stand on these pages; others may, too."""
        there = self.places()
        return [f"no {title!r} on page {page}: {there}" for title, page in wanted if (title, page) not in there]

    def places(self):
        """Headings as the manifest calls them, without "Section 3.", and their pages."""
        return [(re.sub(r"^Section \d+\. ", "", node["title"]), node["start_index"]) for _, node in self.headings]

    def fails(self, code, *words):
        if not self.failure:
            return [f"no failure, wanted {code}"]
        message = self.failure["message"].lower()
        return same(self.failure["code"], code, "code") + [f"{message!r} lacks {word!r}" for word in words if word not in message]

    def gap(self, code, page=None):
        page = None if page is None else (page, page)
        there = any(code == has and (page is None or span is None or covers(span, page)) for has, span in self.gaps)
        return [] if there else [f"no gap {code} on page {page}: {list(self.gaps)}"]

    def no_page_beyond(self, last):
        return [f"{node['title']!r} on page {node['end_index']}" for _, node in self.nodes if node["end_index"] > last]

    def without(self, word):
        return [f"title {title!r}" for title in self.titles if word in title]


def covers(span, page):
    return span[0] <= page[0] <= span[-1]


def same(found, wanted, what):
    return [] if found == wanted else [f"{what}: found {str(found)[:300]}, wanted {str(wanted)[:300]}"]


def walk(nodes):
    waiting = [(1, node) for node in reversed(nodes)]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(node.get("nodes", []))]


def nested(seen, depth):
    levels = [level for level, _ in seen.headings]
    return same(levels, list(range(1, depth + 1)), "depths")


def unique_ids(seen):
    ids = [node["node_id"] for _, node in seen.nodes]
    return [] if len(set(ids)) == len(ids) else ["ids are not unique"]


def either(seen, when_read):
    """A clear error, or what `when_read` checks."""
    return when_read(seen) if seen.tree else ([] if seen.failure else ["neither a tree nor a failure"])


def bomb(seen):
    return seen.gap("pdf.page_unreadable", 2) + [
        f"page {page} lost" for page in (1, 3) if not any(n["start_index"] == page for _, n in seen.headings)]


EIGHT_PAGES = lambda seen: seen.on_pages(EIGHT)  # noqa: E731
THREE = lambda seen: seen.on_pages(EIGHT[:3]) + seen.without("PWNED") + seen.no_page_beyond(3)  # noqa: E731
MUST = {
    "bad_stream_page1.pdf": lambda s: s.gap("pdf.page_unreadable", 1) + [f"page {p} lost" for p in (2, 3) if not any(n["start_index"] == p for _, n in s.headings)],
    "chinese_cid.pdf": lambda s: same([n["start_index"] for _, n in s.headings if n["title"].startswith("第")], [2, 3, 4, 5], "pages of chapters"),
    "chinese_embedded.pdf": lambda s: same([n["start_index"] for _, n in s.headings if n["title"].startswith("第")], [1, 2, 3, 4], "pages of chapters"),
    "circular_outline.pdf": EIGHT_PAGES,
    "circular_page_tree.pdf": lambda s: either(s, lambda s: same(s.tree["page_count"], 2, "pages")),
    "deep_array.pdf": lambda s: either(s, lambda s: same(s.tree["page_count"], 1, "pages")),
    "deep_page_tree.pdf": lambda s: either(s, lambda s: same(s.tree["page_count"], 1, "pages")),
    "embedded_file.pdf": lambda s: ["evil" for _ in [0] if "evil" in s.shown],
    "encrypted_empty_user.pdf": EIGHT_PAGES,
    "encrypted_password.pdf": lambda s: s.fails("pdf.encrypted_password", "password") + ([] if "corrupt" not in s.failure["message"] else ["says corrupt"]),
    "encrypted_rc4.pdf": EIGHT_PAGES,
    "flate_bomb_500mb.pdf": bomb,
    "flate_bomb_nested.pdf": bomb,
    "header_only.pdf": lambda s: s.fails("pdf.no_pages", "no pages"),
    "html_named.pdf": lambda s: s.fails("pdf.not_a_pdf", "not a pdf"),
    "huge_mediabox.pdf": lambda s: s.on_pages(EIGHT[:2]),
    "huge_page_count.pdf": lambda s: either(s, lambda s: same(s.tree["page_count"], 2, "pages")),
    # Its images show no letters.
    "image_only_scan.pdf": lambda s: s.fails("pdf.no_text", "no words") if TESSERACT else s.fails("ocr.no_engine", "tesseract"),
    "javascript_launch.pdf": lambda s: s.on_pages(EIGHT[:2]),
    "leading_garbage.pdf": lambda s: either(s, EIGHT_PAGES),
    "md_blockquote_list.md": lambda s: [] if "Real" in s.titles else ["no Real"],
    "md_deep_blockquote.md": lambda s: [] if "Real" in s.titles else ["no Real"],
    "md_duplicate_titles.md": unique_ids,
    "md_50k_headings.md": unique_ids,
    "md_empty.md": lambda s: s.fails("input.empty", "empty"),
    "md_named_pdf.pdf": lambda s: s.fails("pdf.not_a_pdf", "not a pdf"),
    "md_no_headings.md": lambda s: same(len(s.nodes), 1, "nodes") + s.gap("structure.none"),
    "md_prompt_injection.md": lambda s: s.sections("Overview", "Risk Factors") + s.without("PWNED"),
    "md_skipped_levels.md": lambda s: same([d for d, _ in s.nodes], [1, 2, 2, 3, 1, 2], "depths"),
    "md_six_levels.md": lambda s: nested(s, 6),
    "md_starts_deep.md": lambda s: same(len(s.nodes), 3, "nodes"),
    "md_utf16.md": lambda s: either(s, lambda s: ["no heading"] if not s.headings else []),
    "md_invalid_utf8.md": lambda s: s.gap("text.invalid_utf8"),
    "mixed_scan.pdf": lambda s: s.gap("pdf.no_text", 2) + s.gap("ocr.recognized" if TESSERACT else "ocr.no_engine"),
    "no_pages.pdf": lambda s: s.fails("pdf.no_pages", "no pages"),
    "ok_base.pdf": EIGHT_PAGES,
    "outline_400_deep.pdf": lambda s: same(len(s.nodes) > 0, True, "nodes"),
    "outline_5000.pdf": unique_ids,
    "outline_8_levels.pdf": lambda s: nested(s, 8),
    "outline_all_page_one.pdf": EIGHT_PAGES,
    "outline_good.pdf": EIGHT_PAGES,
    "outline_missing_dests.pdf": lambda s: s.no_page_beyond(8) + s.has_on(*((EIGHT[at], at + 1) for at in (0, 1, 3, 5, 7))),
    "outline_page_numbers.pdf": lambda s: s.no_page_beyond(8),
    "outline_self_child.pdf": EIGHT_PAGES,
    "outline_slides.pdf": EIGHT_PAGES,
    "outline_weird_titles.pdf": lambda s: ["an empty title" for title in s.titles if not title.strip()],
    "page_5mb_text.pdf": lambda s: [f"page {p} lost" for p in (1, 3) if not any(n["start_index"] == p for _, n in s.headings)],
    "page_labels_roman.pdf": EIGHT_PAGES,
    "pages_10000_empty.pdf": lambda s: s.fails("pdf.no_text", "no text"),
    "pdf_named_md.md": lambda s: either(s, EIGHT_PAGES),
    "prompt_injection.pdf": THREE,
    "prompt_injection_hidden.pdf": THREE,
    "random_bytes.pdf": lambda s: s.fails("pdf.not_a_pdf", "not a pdf"),
    "rotated_pages.pdf": lambda s: s.on_pages(EIGHT[:4]),
    "toc_lies.pdf": lambda s: s.no_page_beyond(9) + s.has_on(*((title, at + 2) for at, title in enumerate(EIGHT))) + [
        f"unverified {n['title']!r}" for _, n in s.headings if not n["verified"]],
    "trailing_garbage.pdf": EIGHT_PAGES,
    "truncated_50.pdf": lambda s: either(s, lambda s: [] if s.gaps else ["no gap is recorded"]),
    "truncated_90.pdf": lambda s: either(s, lambda s: [] if s.gaps else ["no gap is recorded"]),
    "wrong_xref.pdf": lambda s: either(s, EIGHT_PAGES),
    "zero_byte.pdf": lambda s: s.fails("input.empty", "empty"),
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")


def run(stemma, store, *arguments):
    """Runs a command under the limits; its exit status, output, seconds and peak bytes."""
    began, peak = time.monotonic(), 0
    process = subprocess.Popen([stemma, "--store", store, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer = []
    reader = threading.Thread(target=lambda: answer.extend(process.communicate()))
    reader.start()
    while reader.is_alive():
        peak = max(peak, tree_rss(process.pid))
        if time.monotonic() - began > 4 * MAX_SECONDS:
            process.kill()
        reader.join(0.01)
    out, err = (part.decode("utf-8", "strict") for part in answer)
    return {"exit": process.returncode, "out": out, "err": err, "seconds": time.monotonic() - began, "bytes": peak}


def manners(answer):
    """What holds for every command."""
    text = answer["out"] + answer["err"]
    misses = ["panic text" for word in ("panicked", "RUST_BACKTRACE", "Traceback") if word in text]
    match = CONTROL.search(text)
    return misses + ([f"control character {match.group()!r}"] if match else [])


def common(entry, seen):
    """What `expect`, `nodes`, `node_count` and `pages` say, and the rules of trees."""
    misses, expect = [], entry["expect"]
    if expect == "clear-error" and (seen.code != 3 or not seen.failure or seen.tree):
        misses.append(f"wanted a failure and exit 3, got exit {seen.code}")
    if expect in ("full-result", "partial-result") and (seen.code != 0 or not seen.tree):
        misses.append(f"wanted a tree and exit 0, got exit {seen.code}: {seen.failure}")
    if expect == "partial-result" and not seen.gaps:
        misses.append("nothing says what was lost")
    if seen.code not in (0, 3) or (seen.code == 3) != bool(seen.failure) or bool(seen.failure) == bool(seen.tree):
        misses.append(f"exit {seen.code}, failure {seen.failure}, tree {bool(seen.tree)} do not fit")
    if seen.failure and ("\n" in seen.failure["message"] or not seen.failure.get("next")):
        misses.append(f"no clear line: {seen.failure}")
    if not seen.tree:
        return misses
    if "node_count" in entry:
        misses += same(len(seen.headings), entry["node_count"], "headings")
    if entry.get("nodes") and expect != "error-or-partial" and expect != "bounded":
        misses += same([(n["title"], n["line_num"]) for _, n in seen.headings], [(n["title"], n["line"]) for n in entry["nodes"]], "titles and lines")
    elif entry.get("nodes"):
        there = {(node["title"], node["line_num"]) for _, node in seen.headings}
        misses += [f"no {n['title']!r} on line {n['line']}" for n in entry["nodes"] if (n["title"], n["line"]) not in there]
    if "pages" in entry:
        misses += same(seen.tree.get("page_count"), entry["pages"], "pages")
    size = seen.tree.get("page_count")
    for _, node in seen.nodes:
        if CONTROL.search(node["title"].replace("\t", "")) and entry["file"] != "md_emoji_rtl.md":
            misses.append(f"control character in title {node['title']!r}")
        if size and not 1 <= node["start_index"] <= node["end_index"] <= size:
            misses.append(f"{node['title']!r} on pages {node['start_index']}-{node['end_index']} of {size}")
    return misses + unique_ids(seen)


def exported(stemma, store, out):
    answer = run(stemma, store, "export", "--format", "pageindex", "--out", str(out))
    misses = manners(answer)
    trees = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.rglob("*.json"))] if answer["exit"] == 0 else []
    for tree in trees:
        tree["gaps"] = tree["provenance"]["gaps"]
    return trees, misses


def one(stemma, file, entry, scratch):
    store, out = str(scratch / "store"), scratch / "out"
    for folder in (store, out):
        shutil.rmtree(folder, ignore_errors=True)
    answer = run(stemma, store, "--json", "ingest", str(file))
    seconds, memory = LOWER.get(file.name, (MAX_SECONDS, MAX_BYTES))
    misses = [f"{answer['seconds']:.1f} s"] if answer["seconds"] > seconds else []
    misses += [f"{answer['bytes'] / 1e6:.0f} MB"] if answer["bytes"] > memory else []
    misses += manners(answer)
    answer["json"] = json.loads(answer["out"])
    if answer["json"].get("failures"):
        # For people: one line for the failure, one for what to do.
        again = run(stemma, store, "failures")
        misses += manners(again)
    trees, more = exported(stemma, store, out)
    shown = [run(stemma, store, *words) for words in (["ls", "-R"], ["tree", file.stem], ["stat", file.stem], ["cat", file.stem])]
    for view in shown:
        misses += manners(view)
    seen = Seen(answer, trees[0] if trees else None, "".join(view["out"] + view["err"] for view in shown[:3]))
    misses += more + common(entry, seen)
    if entry["file"].removesuffix(".gz") in MUST:
        try:
            misses += MUST[entry["file"].removesuffix(".gz")](seen)
        except (KeyError, TypeError) as error:
            misses.append(f"cannot be checked: {error!r}")
    return answer, seen, sorted(set(misses))


def batch(stemma, folder, alone, scratch):
    """All at once: nobody's neighbor changes what a file comes to."""
    store = str(scratch / "batch")
    answer = run(stemma, store, "--json", "ingest", str(folder))
    misses = manners(answer) + same(answer["exit"], 3, "exit")
    misses += [f"{answer['bytes'] / 1e6:.0f} MB"] if answer["bytes"] > MAX_BYTES else []
    summary = json.loads(answer["out"])
    doubles = {row["path"]: row["of"] for row in summary["duplicates"]}
    failed = {row["path"]: row["code"] for row in summary["failures"]}
    read = {row["path"]: (row["sections"], row["gaps"]) for row in summary["documents"]}
    for name, seen in alone.items():
        name = name if name in failed or name in read else doubles.get(name, name)
        if seen.failure:
            misses += same(failed.get(name), seen.failure["code"], name)
        else:
            misses += same(read.get(name, (None,))[0], len(seen.nodes), name)
    return answer, misses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "stemma", "scratch"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    entries = json.loads((options.data / "manifest.json").read_text(encoding="utf-8"))["files"]
    folder, alone, missed, rows = options.scratch / "files", {}, 0, []
    folder.mkdir()
    for entry in entries:
        bytes_ = (options.data / entry["file"]).read_bytes()
        file = folder / entry["file"].removesuffix(".gz")
        file.write_bytes(gzip.decompress(bytes_) if entry.get("gunzip") else bytes_)
        answer, seen, misses = one(str(options.stemma), file, entry, options.scratch)
        alone[file.name] = seen
        came_to = seen.failure["code"] if seen.failure else f"{len(seen.nodes)} sections" + (f", {', '.join(sorted({c for c, _ in seen.gaps}))}" if seen.gaps else "")
        print(f"{'ok  ' if not misses else 'MISS'} {file.name:<28} {entry['expect']:<17} {answer['seconds']:5.2f} s {answer['bytes'] / 1e6:5.0f} MB  {came_to}", flush=True)
        for miss in misses:
            print(f"       {miss}")
        missed += bool(misses)
        rows.append((answer["seconds"], answer["bytes"]))
        if options.verbose:
            print(f"       must: {entry['must']}\n       {[(n['title'][:60], n.get('start_index', n.get('line_num'))) for _, n in seen.nodes[:12]]}")
            for (code, pages), detail in list(seen.gaps.items())[:5]:
                print(f"       {code} {pages} {detail}")
    answer, misses = batch(str(options.stemma), folder, alone, options.scratch)
    print(f"{'ok  ' if not misses else 'MISS'} all {len(entries)} in one batch       {answer['seconds']:21.2f} s {answer['bytes'] / 1e6:5.0f} MB")
    for miss in misses:
        print(f"       {miss}")
    print(f"{len(entries) - missed} of {len(entries)} as expected one by one, {'all' if not misses else 'not all'} in one batch; "
          f"at most {max(s for s, _ in rows):.1f} s and {max(b for _, b in rows) / 1e6:.0f} MB")
    return 1 if missed or misses else 0


if __name__ == "__main__":
    sys.exit(main())
