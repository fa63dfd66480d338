"""Compares recognized copies of filings with the originals (tests/bench/ocr)."""

import json
import math
import random
import re
import resource
import subprocess
import sys
import tempfile
import zlib
from difflib import SequenceMatcher
from pathlib import Path



def stemma(binary, store, *arguments):
    run = subprocess.run([binary, *arguments, "--store", store], capture_output=True, text=True)
    if run.returncode not in (0, 2, 3):
        sys.exit(f"stemma {' '.join(arguments)}: {run.stderr}")
    return run.stdout


def drawn(pdf, folder, dpi, jpeg):
    """The pages of a PDF as gray images: their bytes, sizes in points and the filter of PDF that decodes them."""
    form = ["-jpeg", "-jpegopt", "quality=35"] if jpeg else []
    subprocess.run(["pdftoppm", "-r", str(dpi), "-gray", *form, pdf, f"{folder}/page"], check=True)
    for path in sorted(Path(folder).glob("page*")):
        data = path.read_bytes()
        path.unlink()
        if jpeg:
            at = next(m.start() for m in re.finditer(rb"\xff[\xc0\xc2]", data))
            height, width = int.from_bytes(data[at + 5:at + 7]), int.from_bytes(data[at + 7:at + 9])
            # It writes gray images with three components.
            yield data, width, height, "DCTDecode", "DeviceRGB" if data[at + 9] == 3 else "DeviceGray"
        else:
            _, size, _, pixels = data.split(b"\n", 3)
            width, height = map(int, size.split())
            yield pixels, width, height, None, "DeviceGray"


def noisy(pixels, seed):
    """Speckles on one pixel in a hundred, and a gray cast."""
    rng = random.Random(seed)
    pixels = bytearray(pixels.translate(bytes(30 + value * 200 // 255 for value in range(256))))
    for _ in range(len(pixels) // 100):
        pixels[rng.randrange(len(pixels))] = rng.randrange(256)
    return bytes(pixels)


def write_pdf(path, images, dpi, degrees=0.0, turn=0, two_up=False):
    """Pages that consist of images, each turned by `degrees` clockwise, and by quarter turns."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    pages = []
    images = list(images)
    groups = [images[i:i + 2] for i in range(0, len(images), 2)] if two_up else [[image] for image in images]
    for group in groups:
        content, names, x0 = b"", b"", 0.0
        high = 0.0
        for number, (data, width, height, kind, colors) in enumerate(group):
            if kind is None:
                data, kind = zlib.compress(data, 1), "FlateDecode"
            objects.append(b"<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/%s/BitsPerComponent 8"
                           b"/Filter/%s/Length %d>>stream\n%s\nendstream"
                           % (width, height, colors.encode(), kind.encode(), len(data), data))
            names += b"/I%d %d 0 R" % (number, len(objects))
            w, h = width * 72 / dpi, height * 72 / dpi
            angle = math.radians(-degrees - 90 * turn)
            sin, cos = math.sin(angle), math.cos(angle)
            shown_w, shown_h = (h, w) if turn % 2 else (w, h)
            cx, cy = x0 + shown_w / 2, shown_h / 2
            e, f = cx - (w * cos - h * sin) / 2, cy - (w * sin + h * cos) / 2
            content += b"q %.5f %.5f %.5f %.5f %.3f %.3f cm /I%d Do Q\n" % (
                w * cos, w * sin, -h * sin, h * cos, e, f, number)
            x0, high = x0 + shown_w, max(high, shown_h)
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
        objects.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %.2f %.2f]/Resources<</XObject<<%s>>>>/Contents %d 0 R>>"
                       % (x0, high, names, len(objects)))
        pages.append(len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(pages), b" ".join(b"%d 0 R" % page for page in pages))
    out, offsets = bytearray(b"%PDF-1.5\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, body)
    xref = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, xref)
    Path(path).write_bytes(out)


VARIANTS = {
    "300 dpi": dict(dpi=300),
    "150 dpi, jpeg 35": dict(dpi=150, jpeg=True),
    "200 dpi, noise": dict(dpi=200, noise=True),
    "skew 0.7": dict(dpi=200, jpeg=True, degrees=0.7),
    "skew 3": dict(dpi=200, jpeg=True, degrees=-3.0),
    "upside down": dict(dpi=200, jpeg=True, turn=2),
    "sideways": dict(dpi=200, jpeg=True, turn=1),
    "two-up": dict(dpi=200, jpeg=True, two_up=True),
}


def make(pdf, path, folder, dpi, jpeg=False, noise=False, **shape):
    images = drawn(pdf, folder, dpi, jpeg)
    if noise:
        images = [(noisy(pixels, n), *rest) for n, (pixels, *rest) in enumerate(images)]
    write_pdf(path, images, dpi, **shape)


def words(page):
    return page["text"].split()


def is_number(word):
    return any(c.isdigit() for c in word)


def common(one, other):
    """How many words of `one` are in `other`, as multisets."""
    left = {}
    for word in other:
        left[word] = left.get(word, 0) + 1
    found = 0
    for word in one:
        if left.get(word, 0) > 0:
            left[word] -= 1
            found += 1
    return found


def headings(binary, store, doc):
    """PART and Item headings with their pages."""
    tree = json.loads(stemma(binary, store, "tree", doc, "--json"))
    found, stack = set(), [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            title = value.get("title")
            match = isinstance(title, str) and re.match(r"(part\s+[ivx]+|item\s+\d+[a-c]?)\b", title.lower())
            pages = value.get("pages") or []
            if match and pages:
                found.add((re.sub(r"\s+", " ", match.group(1)), pages[0] if isinstance(pages, list) else pages))
            stack += value.values()
    return found


def f1(found, truth):
    right = len(found & truth)
    return 2 * right / (len(found) + len(truth)) if found or truth else 1.0


def main():
    binary, scratch, most_pages, *pdfs = sys.argv[1:]
    total = {}
    for pdf in pdfs:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            cut = f"{folder}/original.pdf"
            subprocess.run(["pdftocairo", "-pdf", "-l", most_pages, pdf, cut], check=True)
            store = f"{folder}/store"
            stemma(binary, store, "ingest", cut, "--ocr", "never")
            original = json.loads(stemma(binary, store, "cat", "original", "--json"))["pages"]
            truth_headings = headings(binary, store, "original")
            for name, shape in VARIANTS.items():
                copy = f"{folder}/copy.pdf"
                make(cut, copy, folder, **shape)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                copies = f"{folder}/copies-{name.replace(' ', '-').replace(',', '')}"
                stemma(binary, copies, "ingest", copy)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                pages = json.loads(stemma(binary, copies, "cat", "copy", "--json"))["pages"]
                row = total.setdefault(name, dict(words=0, found=0, numbers=0, pages=0, cpu=0.0, lcs=[], f1=[], sure=0, right=0))
                truth = original
                if shape.get("two_up"):
                    truth = [dict(text="\n".join(p["text"] for p in original[i:i + 2])) for i in range(0, len(original), 2)]
                for one, read in zip(truth, pages):
                    expected, got = words(one), words(read)
                    row["words"] += len(expected)
                    row["found"] += common(expected, got)
                    numbers = [w for w in expected if is_number(w)]
                    row["numbers"] += len(numbers)
                    doubtful = (read.get("ocr") or {}).get("doubtful", [])
                    sure = [w for w in got if is_number(w)]
                    for word in doubtful:
                        if word in sure:
                            sure.remove(word)
                    row["sure"] += len(sure)
                    row["right"] += common(sure, numbers)
                    matcher = SequenceMatcher(None, expected, got, autojunk=False)
                    row["lcs"].append((sum(b.size for b in matcher.get_matching_blocks()), len(expected)))
                row["pages"] += len(original)
                row["cpu"] += cpu
                if not shape.get("two_up"):
                    row["f1"].append(f1(headings(binary, copies, "copy"), truth_headings))
    print("| copy | words | sure numbers right | numbers sure | order | heads F1 | CPU s/page |")
    print("|---|---|---|---|---|---|---|")
    for name, row in total.items():
        order = sum(a for a, _ in row["lcs"]) / max(1, sum(b for _, b in row["lcs"]))
        heads = sum(row["f1"]) / len(row["f1"]) if row["f1"] else float("nan")
        print(f"| {name} | {row['found'] / max(1, row['words']):.3f} | {row['right'] / max(1, row['sure']):.4f} "
              f"| {row['sure'] / max(1, row['numbers']):.3f} | {order:.3f} | {heads:.3f} | {row['cpu'] / max(1, row['pages']):.2f} |")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory of a process: {peak:.0f} MB")


main()
