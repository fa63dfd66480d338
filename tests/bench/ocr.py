"""Compares recognized copies of filings with the originals (tests/bench/ocr)."""

import ctypes
import json
import math
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from halves import half_of  # noqa: E402
from measure import PR_SET_CHILD_SUBREAPER, adopt_the_rest  # noqa: E402

BOUNDS = range(50, 96, 5)
# Of `Recognition` in shared/document.
SURE = 80
# So many words after a title, some sentences, may give the figure or words of a question.
OPENING = 80
# Issue 20: search finds the pages of a copy nearly as often as those of the original.
MARK_HITS = 0.05


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


def gray(pixels):
    """Dark gray on light gray."""
    return pixels.translate(bytes(70 + value * 130 // 255 for value in range(256)))


def noisy(pixels, seed):
    """Speckles on one pixel in a hundred, and a gray cast."""
    rng = random.Random(seed)
    pixels = bytearray(gray(pixels))
    for _ in range(len(pixels) // 100):
        pixels[rng.randrange(len(pixels))] = rng.randrange(256)
    return bytes(pixels)


def blurred(pixels, width):
    """Binomial weights over five pixels, in each direction."""
    for step in (1, 1, width, width):
        shifted = zip(pixels, pixels[step:], pixels[2 * step:])
        middle = bytes((a + 2 * b + c) // 4 for a, b, c in shifted)
        pixels = pixels[:step] + middle + pixels[-step:]
    return pixels


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
    "150 dpi, JPEG 35": dict(dpi=150, jpeg=True),
    "200 dpi, gray": dict(dpi=200, change="gray"),
    "200 dpi, noise": dict(dpi=200, change="noise"),
    "200 dpi, blur": dict(dpi=200, change="blur"),
    "skew 0.7°": dict(dpi=200, jpeg=True, degrees=0.7),
    "skew 3°": dict(dpi=200, jpeg=True, degrees=-3.0),
    "upside down": dict(dpi=200, jpeg=True, turn=2),
    "sideways, right": dict(dpi=200, jpeg=True, turn=1),
    "sideways, left": dict(dpi=200, jpeg=True, turn=3),
    "two-up": dict(dpi=200, jpeg=True, two_up=True),
    "stacked": dict(dpi=150, change="noise", degrees=0.7, scanned=True),
}


def wanted_variants():
    """Of `--copies`, or all."""
    names = [name.strip() for name in os.environ.get("OCR_COPIES", "").split(";") if name.strip()] or list(VARIANTS)
    if unknown := set(names) - set(VARIANTS):
        sys.exit(f"no such copy: {', '.join(sorted(unknown))}; there are {'; '.join(VARIANTS)}")
    return {name: VARIANTS[name] for name in names}


def make(pdf, path, folder, dpi, jpeg=False, change=None, scanned=False, **shape):
    images = list(drawn(pdf, folder, dpi, jpeg))
    if change:
        changed = {
            "gray": lambda pixels, _, __: gray(pixels),
            "noise": lambda pixels, _, number: noisy(pixels, number),
            "blur": lambda pixels, width, _: blurred(pixels, width),
        }[change]
        images = [(changed(pixels, width, n), width, *rest) for n, (pixels, width, *rest) in enumerate(images)]
    write_pdf(path, images, dpi, **shape)
    if scanned:
        # A scanner compresses last what is skewed and noisy.
        write_pdf(path, drawn(path, folder, dpi, jpeg=True), dpi)


def unite(pdf, path, folder, spans):
    """Writes the pages of spans that count from 0, without their ends."""
    parts = [f"{folder}/part-{start}-{end}.pdf" for start, end in spans]
    for (start, end), part in zip(spans, parts):
        subprocess.run(["pdftocairo", "-pdf", "-f", str(start + 1), "-l", str(end), pdf, part], check=True)
    subprocess.run(["pdfunite", *parts, path], check=True)


def cut(pdf, path, folder, count):
    """`count` pages, half from the start, half from the middle, where filings have tables, or `all`. Returns the spans of the others."""
    if count == "all":
        shutil.copyfile(pdf, path)
        return []
    count = int(count)
    info = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    total = int(re.search(r"^Pages:\s+(\d+)", info, re.M).group(1))
    half = count // 2
    middle = max(half, min(total // 2, total - half))
    pages = sorted({*range(min(half, total)), *range(middle, min(middle + half, total))})
    unite(pdf, path, folder, [(page, page + 1) for page in pages])
    return [span for span in ((half, middle), (middle + half, total)) if span[0] < span[1]]


PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "\u00a0": " ", "$": " ", "%": " "})


def words(text):
    """Words with a letter or digit. Quotes and dashes have one form; signs of currencies and percent are words or parts of one, so they are left out."""
    return [word for word in text.translate(PLAIN).split() if any(c.isalnum() for c in word)]


def number(word):
    """A word's figure with the parenthesis of a negative one; None without digits."""
    found = re.search(r"[(-]?\d[\d.,]*", word)
    return found.group(0).rstrip(".,") if found else None


def numbers(some):
    return [figure for figure in map(number, some) if figure]


def common(one, other):
    """How many elements of `one` are in `other`, as multisets."""
    return sum((Counter(one) & Counter(other)).values())


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


def plain_words(text):
    """Words as a question has them: lower case, without marks around them, and without the colon of a field."""
    return [word for word in (word.strip(".,;'\"()[]{}*-%").lower() for word in words(text.replace(":", " "))) if word]


def candidates(some):
    """What may single out a page: figures of three digits and more, and pairs of words of four letters and more."""
    for word, following in zip(some, [*some[1:], ""]):
        if re.fullmatch(r"[\d.,]+", word) and sum(map(str.isdigit, word)) > 2:
            yield "figure", word
        elif min(len(word), len(following)) > 3 and word.isalpha() and following.isalpha():
            yield "pair", f"{word} {following}"


def questions(binary, store, originals, rest):
    """[(question, page)]: the title of a section, and the first figure, or the first pair of words, of its text on a page that stands
    on no other page of the filing. Where sections share it, the deepest gives the title."""
    pages = [plain_words(text) for text in originals]
    on_pages = Counter(found for page in [*pages, *map(plain_words, rest)] for found in set(candidates(page)))
    titles = {}
    for section in json.loads(stemma(binary, store, "tree", "original", "--json"))["sections"]:
        title = plain_words(section["title"])
        first, last = section["pages"]
        for page in range(first, last + 1):
            text = pages[page - 1]
            places = [i + len(title) for i in range(len(text)) if text[i:i + len(title)] == title] if page == first else [0]
            if not title or not places:
                continue
            opening = text[places[0]:places[0] + OPENING]
            single = [found for found in candidates(opening) if on_pages[found] == 1]
            for kind in ("figure", "pair"):
                found = next((found for found in single if found[0] == kind), None)
                if found:
                    titles[found, page] = title
    return [(" ".join([*title, found]), page) for ((_, found), page), title in titles.items()]


def count_hits(binary, store, doc, asked, folder, pages_a_side=1):
    """How many questions have their page of a document among the first five results."""
    batch = Path(f"{folder}/questions.jsonl")
    batch.write_text("".join(json.dumps({"id": str(i), "query": query}) + "\n" for i, (query, _) in enumerate(asked)))
    answers = [json.loads(line) for line in stemma(binary, store, "search", "--batch", str(batch)).splitlines()]
    if len(answers) != len(asked) or any("error" in answer for answer in answers):
        sys.exit(f"search: {len(answers)} answers to {len(asked)} questions: {answers}")
    wanted = [[doc, (page + pages_a_side - 1) // pages_a_side] for _, page in asked]
    return sum(page in answer["ranked_pages"][:5] for page, answer in zip(wanted, answers))


def cpu_used():
    """Of all processes so far. Those that ended without their parent are waited for here."""
    adopt_the_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Row:
    """Counts of one kind of copy in one half."""

    def __init__(self):
        self.counts = Counter()

    def add_page(self, text, read):
        expected, got = words(text), words(read["text"])
        figures = numbers(expected)
        doubtful = Counter(numbers(words(" ".join((read.get("ocr") or {}).get("doubtful", [])))))
        sure = list((Counter(numbers(got)) - doubtful).elements())
        blocks = SequenceMatcher(None, expected, got, autojunk=False).get_matching_blocks()
        self.counts.update(words=len(expected), found=common(expected, got), numbers=len(figures), sure=len(sure),
                           right=common(sure, figures), order=sum(block.size for block in blocks))

    def line(self):
        n = self.counts
        share = lambda part, whole: f"{n[part] / n[whole]:.4f}" if n[whole] else "-"  # noqa: E731
        heads = f"{2 * n['heads_right'] / n['heads']:.3f}" if n["heads"] else "-"
        return (f"{share('found', 'words')} | {share('right', 'sure')} | {share('sure', 'numbers')} | {share('order', 'words')} "
                f"| {heads} | {share('hits', 'asked')} | {share('hits_original', 'asked')} | {n['asked']} "
                f"| {n['cpu'] / max(1, n['pages']):.2f} | {n['pages']}")

    def falls_short(self):
        n = self.counts
        return n["hits_original"] - n["hits"] > MARK_HITS * n["asked"]


def texts_of(binary, store, doc):
    return [page["text"] for page in json.loads(stemma(binary, store, "cat", doc, "--json"))["pages"]]


def compare(binary, cut_pdf, others, folder, rows, half):
    """`others` are the filing's other pages, which search may find instead; None if it has none."""
    store = f"{folder}/store"
    stemma(binary, store, "ingest", cut_pdf, "--ocr", "never")
    original = texts_of(binary, store, "original")
    truth = headings(binary, store, "original")
    if others:
        stemma(binary, store, "ingest", others, "--ocr", "never")
    asked = questions(binary, store, original, texts_of(binary, store, "others") if others else [])
    hits_original = count_hits(binary, store, "original", asked, folder)
    for name, shape in wanted_variants().items():
        copy = f"{folder}/copy.pdf"
        make(cut_pdf, copy, folder, **shape)
        copies = f"{folder}/copies"
        subprocess.run(["rm", "-rf", copies], check=True)
        before = cpu_used()
        stemma(binary, copies, "ingest", copy, "--ocr", "auto")
        row = rows.setdefault((half, name), Row())
        row.counts["cpu"] += cpu_used() - before
        row.counts["pages"] += len(original)
        pages = json.loads(stemma(binary, copies, "cat", "copy", "--json"))["pages"]
        two_up = shape.get("two_up")
        if others:
            stemma(binary, copies, "ingest", others, "--ocr", "never")
        hits = count_hits(binary, copies, "copy", asked, folder, pages_a_side=2 if two_up else 1)
        row.counts.update(asked=len(asked), hits_original=hits_original, hits=hits)
        texts = ["\n".join(original[i:i + 2]) for i in range(0, len(original), 2)] if two_up else original
        for text, read in zip(texts, pages):
            row.add_page(text, read)
        if not two_up:
            found = headings(binary, copies, "copy")
            row.counts.update(heads=len(found) + len(truth), heads_right=len(found & truth))
        # What is known so far, because a run may take long.
        print(f"{half} {name} | {row.line()}", file=sys.stderr, flush=True)


def add_bounds(reader, cut_pdf, folder, counts):
    """Counts for each bound of doubt how many numbers are at least as sure, and how many of these are right."""
    text = subprocess.run([reader, "--text", cut_pdf], capture_output=True, text=True, check=True).stdout
    original = text.split("\f")[:-1]
    for shape in wanted_variants().values():
        if shape.get("two_up"):
            continue
        copy = f"{folder}/copy.pdf"
        make(cut_pdf, copy, folder, **shape)
        for page, text in enumerate(original, 1):
            read = subprocess.run([reader, "--words", copy, str(page)], capture_output=True, text=True, check=True).stdout
            pairs = [line.split("\t", 1) for line in read.splitlines()]
            figures = numbers(words(text))
            counts["all"] += len(figures)
            for bound in BOUNDS:
                sure = numbers(words(" ".join(word for confidence, word in pairs if int(confidence) >= bound)))
                counts["sure", bound] += len(sure)
                counts["right", bound] += common(sure, figures)


def add_readers(reader, model, cut_pdf, folder, rows, half):
    """Counts the numbers that are sure, and how many of these are right, with one reader and with two."""
    text = subprocess.run([reader, "--text", cut_pdf], capture_output=True, text=True, check=True).stdout
    original = text.split("\f")[:-1]
    for name, shape in wanted_variants().items():
        if shape.get("two_up"):
            continue
        copy = f"{folder}/copy.pdf"
        make(cut_pdf, copy, folder, **shape)
        for page, text in enumerate(original, 1):
            figures = numbers(words(text))
            for readers, models in ((1, []), (2, [model])):
                before = cpu_used()
                read = subprocess.run([reader, "--words", copy, str(page), *models], capture_output=True, text=True, check=True).stdout
                pairs = [line.split("\t") for line in read.splitlines()]
                sure = numbers(words(" ".join(pair[1] for pair in pairs if int(pair[0]) >= SURE)))
                wrong = list((Counter(sure) - Counter(figures)).elements())
                if wrong and readers == 2:
                    print(f"{half} {name} page {page}: sure, but not in the original: {wrong}", file=sys.stderr, flush=True)
                for key in ((half, name, readers), (half, "all", readers)):
                    counts = rows.setdefault(key, Counter())
                    counts.update(all=len(figures), sure=len(sure), wrong=len(wrong), pages=1)
                    counts["cpu"] += cpu_used() - before


def print_readers(rows):
    print("| half | copy | readers | sure numbers right | numbers sure | numbers | CPU s/page | pages |")
    print("|---|---|---|---|---|---|---|---|")
    names = [*VARIANTS, "all"]
    for (half, name, readers), n in sorted(rows.items(), key=lambda row: (row[0][0], names.index(row[0][1]), row[0][2])):
        right = 1 - n["wrong"] / max(1, n["sure"])
        print(f"| {half} | {name} | {readers} | {right:.4f} | {n['sure'] / max(1, n['all']):.4f} | {n['all']} "
              f"| {n['cpu'] / n['pages']:.2f} | {n['pages']} |")


def main():
    mode, binary, scratch, count, halves, *pdfs = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    halves = json.loads(Path(halves).read_text())
    rows, counts = {}, {half: Counter() for half in "AB"}
    for pdf in pdfs:
        half = half_of(Path(pdf).stem, halves)[1] or "B"
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            cut_pdf = f"{folder}/original.pdf"
            spans = cut(pdf, cut_pdf, folder, count)
            if mode == "bounds":
                add_bounds(binary, cut_pdf, folder, counts[half])
            elif mode == "readers":
                add_readers(binary, os.environ["OCR_MODEL"], cut_pdf, folder, rows, half)
            else:
                others = f"{folder}/others.pdf" if spans else None
                if others:
                    unite(pdf, others, folder, spans)
                compare(binary, cut_pdf, others, folder, rows, half)
    if mode == "readers":
        print_readers(rows)
        return
    if mode == "bounds":
        print("| half | bound | sure numbers right | numbers sure |\n|---|---|---|---|")
        for half, seen in counts.items():
            for bound in BOUNDS if seen["all"] else []:
                right, sure = seen["right", bound], seen["sure", bound]
                print(f"| {half} | {bound} | {right / max(1, sure):.4f} | {sure / seen['all']:.3f} |")
        return
    print("| half | copy | words | sure numbers right | numbers sure | order | heads F1 | hit@5 | of the original | questions | CPU s/page | pages |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for (half, name), row in sorted(rows.items(), key=lambda item: (item[0][0], list(VARIANTS).index(item[0][1]))):
        print(f"| {half} | {name} | {row.line()} |")
    missed = [f"{half} {name}" for (half, name), row in rows.items() if row.falls_short()]
    print(f"hit@5 more than {MARK_HITS} below the original: {', '.join(missed) or 'none'}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory of a process: {peak:.0f} MB")


main()
