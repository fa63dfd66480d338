"""Hostile and broken files: each comes to what its manifest expects, within limits, and changes nothing for the files next to it.

The manifest of the data says for each file what must become of it: a full result, a partial one with a gap, or a clear error; its headings,
their number, and its pages. No command may print a panic or a control character, take over 30 s, or use over 1 GB.
"""

import gzip
import json
import re

from harness import measure, walk

MAX_SECONDS, MAX_BYTES = 30, 1e9
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")
SUCCESS, FAILED = 0, 3


def defects_of_output(usage):
    """What holds for every command."""
    text = usage.output + usage.errors
    found = [word for word in ("panicked", "RUST_BACKTRACE") if word in text]
    match = CONTROL.search(text)
    return found + ([f"control character {match.group()!r}"] if match else [])


def defects_of(bench, number, file, entry):
    """What is not as the manifest expects; and the number of sections, or None where the file failed."""
    store, expect = bench.store(f"alone-{number}"), entry["expect"]
    usage = measure(store.command("--json", "ingest", "--ocr", "never", file), timeout_s=4 * MAX_SECONDS)
    found = defects_of_output(usage)
    found += [f"{usage.wall_s:.1f} s"] if usage.wall_s > MAX_SECONDS else []
    found += [f"{usage.peak_bytes / 1e6:.0f} MB"] if usage.peak_bytes > MAX_BYTES else []
    failures = json.loads(usage.output or "{}").get("failures") or []
    # A store without a document has nothing to export.
    trees = list(store.trees(bench.scratch / "trees").values()) if not failures else []
    for words in (["ls", "-R"], ["tree", file.stem], ["stat", file.stem], ["cat", file.stem], ["failures"]):
        found += defects_of_output(measure(store.command(*words)))
    if usage.status not in (SUCCESS, FAILED) or (usage.status == FAILED) != bool(failures) or bool(failures) == bool(trees):
        return found + [f"exit {usage.status}, {len(failures)} failures and {len(trees)} trees do not fit"], None
    if (expect == "clear-error") != bool(failures) and expect in ("clear-error", "full-result", "partial-result"):
        found.append(f"wanted {expect}: {failures or 'a tree'}")
    if failures:
        return found + ([] if failures[0].get("next") else ["a failure without a next step"]), None
    tree = trees[0]
    nodes = [node for _, node in walk(tree["structure"])]
    headings = [node for node in nodes if node.get("kind", "heading") == "heading"]
    if expect == "partial-result" and not tree["provenance"]["gaps"]:
        found.append("nothing says what was lost")
    if "node_count" in entry and len(headings) != entry["node_count"]:
        found.append(f"{len(headings)} headings, wanted {entry['node_count']}")
    there, wanted = [(node["title"], node.get("line_num")) for node in headings], [(node["title"], node.get("line")) for node in entry.get("nodes") or []]
    if wanted and not (there == wanted if expect in ("full-result", "partial-result") else set(wanted) <= set(there)):
        found.append(f"headings {there[:5]}, wanted {wanted[:5]}")
    pages = tree.get("page_count")
    if "pages" in entry and pages != entry["pages"]:
        found.append(f"{pages} pages, wanted {entry['pages']}")
    found += [f"{node['title']!r} on pages {node['start_index']}-{node['end_index']} of {pages}" for node in nodes
              if pages and not 1 <= node["start_index"] <= node["end_index"] <= pages]
    ids = [node["node_id"] for node in nodes]
    return found + (["ids are not unique"] if len(ids) != len(set(ids)) else []), len(nodes)


def main(bench):
    manifest = bench.data("adversarial/manifest.json")
    entries = json.loads(manifest.read_text(encoding="utf-8"))["files"][:bench.options.files]
    folder, sections, right = bench.scratch / "files", {}, 0
    folder.mkdir()
    for number, entry in enumerate(entries):
        data = (manifest.parent / entry["file"]).read_bytes()
        file = folder / entry["file"].removesuffix(".gz")
        file.write_bytes(gzip.decompress(data) if entry.get("gunzip") else data)
        found, sections[file.name] = defects_of(bench, number, file, entry)
        right += not found
        for defect in found:
            bench.note(f"{file.name}: {defect}")
    bench.record("files that come to what is expected", right, n=len(entries), mark=f">= {len(entries)}")
    usage = measure(bench.store("batch").command("--json", "ingest", "--ocr", "never", folder))
    summary = json.loads(usage.output)
    same = {row["path"]: row["of"] for row in summary["duplicates"]}
    read = {row["path"]: row["sections"] for row in summary["documents"]} | {row["path"]: None for row in summary["failures"]}
    differing = [name for name, count in sections.items() if read.get(same.get(name, name), "absent") != count and read.get(name, "absent") != count]
    bench.record("files that come to something else in one batch", len(differing), n=len(entries), mark="<= 0")
    bench.record("peak memory of the batch", usage.peak_bytes / 1e6, "MB", n=len(entries), mark=f"<= {MAX_BYTES / 1e6:.0f}")
    for name in differing:
        bench.note(name)


def add_arguments(parser):
    parser.add_argument("--files", type=int, metavar="N", help="only the first N files")
