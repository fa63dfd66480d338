"""Compares parts and trees of EDGAR submissions with a list made by another program (see tests/bench/containers).

usage: containers.py parts LIST PARTS      compares the lines of `submission_parts` with the list
       containers.py items DATA OUT A|B    writes OUT/items-HALF.jsonl and OUT/truth-HALF/ for eval_items.py from OUT/NAME.items and
                                           OUT/NAME.tree
       containers.py trees FOLDER OUT      checks OUT/NAME.tree and OUT/NAME.text
"""

import json
import pathlib
import re
import shutil
import sys

from halves import half_of
from html import prediction

HALVES = json.loads((pathlib.Path(__file__).parent.parent / "truth/halves.json").read_text())
# Kinds of the list, and ours. JSON, scripts and data of the viewer are told by their type, not by their content.
KINDS = {"text": "text", "html": "html", "html (inline XBRL)": "inline_xbrl", "xbrl": "xbrl", "xml": "xml", "uuencoded": "encoded"}
# Words that only files for machines have.
NOISE = re.compile(r"xbrli:|<us-gaap|link:loc|xlink:href|^M[ -`]{60}$|schemaRef|ix:nonFraction", re.M)


def differences(want, got):
    parts = got["parts"]
    if len(parts) != len(want["documents"]):
        yield f"{len(parts)} parts instead of {len(want['documents'])}"
    for at, (document, part) in enumerate(zip(want["documents"], parts)):
        entry = part["entry"]
        pairs = [("type", document["type"], entry["document_type"]), ("kind", KINDS[document["content"]], part["kind"])]
        pairs += [(name, document[name], entry[name]) for name in ("sequence", "filename", "description")]
        pairs += [(name, document[name], part[name]) for name in ("byte", "text_byte", "text_end_byte")]
        yield from (f"part {at}: {name} is {ours!r} instead of {theirs!r}" for name, theirs, ours in pairs if theirs != ours)
    header, stated = got["header"], want["header"]
    names = {"accession": "accession", "form": "form", "public_documents": "document_count", "period": "period", "filed": "filed", "items": "items"}
    # The list takes the line behind an empty `ITEM INFORMATION:` for its value.
    stated = stated | {"items": [item for item in stated["items"] if "AS OF DATE:" not in item]}
    for theirs, ours in names.items():
        if header[ours] != stated[theirs]:
            yield f"header: {ours} is {header[ours]!r} instead of {stated[theirs]!r}"
    parties = [{"role": party["role"], "name": party["name"], "cik": party["cik"]} for party in header["parties"]]
    if parties != stated["parties"]:
        yield f"header: {len(parties)} parties instead of {len(stated['parties'])}"


def compare_parts(listing, lines):
    want = {entry["file"]: entry for entry in json.loads(pathlib.Path(listing).read_text())}
    wrong, parts, seconds = 0, 0, 0.0
    for line in pathlib.Path(lines).read_text().splitlines():
        if not line.startswith("{"):
            continue
        got = json.loads(line)
        name = pathlib.Path(got["path"]).name
        found = list(differences(want.pop(name), got))
        parts += len(got["parts"])
        seconds += got["seconds"]
        wrong += len(found)
        print(f"{'ok  ' if not found else 'DIFF'} {name}: {len(got['parts'])} parts, {' '.join(got['defects'])}")
        print("".join(f"       {text}\n" for text in found), end="")
    print(f"{parts} parts, {wrong} differences, {len(want)} files missing, parsed in {1000 * seconds:.1f} ms")
    return wrong == 0 and not want


def half(entry):
    """The half of a container's first issuer: that of its name in halves.json, else by its first letter, as html.py has it."""
    name = entry["header"]["parties"][0]["name"].upper()
    return half_of(re.sub(r"\W", "", name), HALVES)[1] or ("A" if name[0] <= "H" else "B")


def with_bytes(items, tree, raw):
    """Items of text without markup have lines in place of bytes: those of their sections."""
    starts = [0, *(match.end() for match in re.finditer(rb"\n", raw)), len(raw)]
    lines = {section["section_id"]: section["lines"] for section in tree["sections"]}
    for item in items:
        section = lines.get(item["section_id"])
        if section and not item.get("bytes"):
            item["bytes"] = [starts[section[0] - 1], starts[section[1]]]
    return items


def prepare_items(data, out, chosen):
    data, out = pathlib.Path(data), pathlib.Path(out)
    entries = {entry["file"]: entry for entry in json.loads((data / "containers/containers.json").read_text())}
    truths = out / f"truth-{chosen}"
    truths.mkdir()
    with open(out / f"items-{chosen}.jsonl", "w") as predictions:
        for truth in sorted((data / "truth/items-containers").glob("*.json")):
            name = json.loads(truth.read_text())["file"]
            if half(entries[name]) != chosen:
                continue
            shutil.copy(truth, truths)
            raw = (data / "containers" / name).read_bytes()
            items, tree = (json.loads((out / f"{name}.{what}").read_text()) for what in ("items", "tree"))
            rows = prediction(name, with_bytes(items["items"], tree, raw), raw)
            predictions.write(json.dumps(rows | {"file": name}) + "\n")
    return True


def check_trees(folder, out):
    bad = 0
    for entry in json.loads((pathlib.Path(folder) / "containers.json").read_text()):
        name = entry["file"]
        tree, text = (pathlib.Path(out) / f"{name}.{what}" for what in ("tree", "text"))
        if not tree.exists() or not tree.stat().st_size:
            bad += 1
            print(f"FAIL {name}: no tree")
            continue
        sections = json.loads(tree.read_text())["sections"]
        top = [section["title"] for section in sections if section["depth"] == 1]
        read = [d for d in entry["documents"] if d["content"].startswith(("html", "text")) and d["type"] not in ("XML", "JSON")]
        missing = [d["type"] for d in read if not any(title.startswith(d["type"]) for title in top)]
        noise = NOISE.findall(text.read_text(errors="replace"))
        bad += bool(missing) + bool(noise)
        print(f"{'ok  ' if not missing and not noise else 'FAIL'} {name}: {len(read)} documents, {len(top)} top sections, {len(sections)} sections, missing {missing}, noise {len(noise)}")
    return bad == 0


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    sys.exit(0 if {"parts": compare_parts, "items": prepare_items, "trees": check_trees}[command](*arguments) else 1)
