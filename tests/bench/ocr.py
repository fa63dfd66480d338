"""Text recognition: pages of filings drawn as scans are and read again, compared with the original's text.

Pages are drawn with pdftoppm and degraded: 150 dpi, JPEG, gray, noise, blur, skew, upside down, sideways, two pages on one; and all of
this together. For each kind of copy: words found, numbers that are right of those that count as sure, sure ones of all numbers, words in
order, and CPU time per page. Needs tesseract and poppler-utils.
"""

import math
import random
import re
import shutil
import subprocess
import zlib
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

from harness import Store, by_half, half_of, measure

TOOLS = ("tesseract", "pdftoppm", "pdftocairo", "pdfunite", "pdfinfo")
FILINGS = ("3M_2022_10K", "BESTBUY_2024Q2_10Q", "AMCOR_2023Q4_EARNINGS", "ADOBE_2022Q2_10Q", "NETFLIX_2017_10K", "ULTABEAUTY_2023Q4_EARNINGS")


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


def cut(pdf, path, folder, count):
    """Writes `count` pages, half from the start, half from the middle, where filings have tables."""
    info = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    total, half = int(re.search(r"^Pages:\s+(\d+)", info, re.M).group(1)), count // 2
    middle = max(half, min(total // 2, total - half))
    parts = []
    for page in sorted({*range(min(half, total)), *range(middle, min(middle + half, total))}):
        parts.append(f"{folder}/part-{page}.pdf")
        subprocess.run(["pdftocairo", "-pdf", "-f", str(page + 1), "-l", str(page + 1), pdf, parts[-1]], check=True)
    subprocess.run(["pdfunite", *parts, path], check=True)


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


def texts(store, name):
    return store.json("cat", name)["pages"]


def compared(originals, pages, pages_a_side):
    """Counts over all pages of a copy."""
    counts = Counter()
    for at, read in enumerate(pages):
        text = " ".join(page["text"] for page in originals[at * pages_a_side:(at + 1) * pages_a_side])
        expected, got = words(text), words(read["text"])
        figures, doubtful = numbers(expected), Counter(numbers(words(" ".join((read.get("ocr") or {}).get("doubtful", [])))))
        sure = list((Counter(numbers(got)) - doubtful).elements())
        blocks = SequenceMatcher(None, expected, got, autojunk=False).get_matching_blocks()
        counts.update(words=len(expected), found=common(expected, got), numbers=len(figures), sure=len(sure), right=common(sure, figures),
                      order=sum(block.size for block in blocks), pages=1)
    return counts


def main(bench):
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        print(f"skipped: no {missing[0]}")
        return
    files = [Path(file) for file in bench.options.files] or [path for path in map(bench.data("dev/pdf").joinpath, [f"{name}.pdf" for name in FILINGS]) if path.exists()]
    rows = []
    for file in files:
        folder = bench.scratch / file.stem
        folder.mkdir()
        cut(file, folder / "original.pdf", folder, bench.options.pages)
        originals = texts(bench.store(f"original-{file.stem}").ingest("--ocr", "never", folder / "original.pdf"), "original")
        for name, shape in VARIANTS.items():
            if bench.options.copies and name not in bench.options.copies.split(";"):
                continue
            make(folder / "original.pdf", folder / "copy.pdf", folder, **shape)
            store = Store(bench.stemma, folder / f"store-{len(rows)}")
            used = measure(store.command("-q", "ingest", folder / "copy.pdf"))
            rows.append({"half": half_of(file.stem), "copy": name, "cpu": used.cpu_s, "peak": used.peak_bytes,
                         "counts": compared(originals, texts(store, "copy"), 2 if shape.get("two_up") else 1)})
    for name in VARIANTS:
        for half, own in by_half([row for row in rows if row["copy"] == name]).items():
            counts = sum((row["counts"] for row in own), Counter())
            for label, part, whole in (("words found", "found", "words"), ("sure numbers that are right", "right", "sure"), ("numbers that are sure", "sure", "numbers"),
                                       ("words in order", "order", "words")):
                bench.record(f"{name}: {label}, half {half}", counts[part] / max(1, counts[whole]), n=counts[whole])
            bench.record(f"{name}: CPU per page, half {half}", sum(row["cpu"] for row in own) / counts["pages"], "s", n=counts["pages"])
    if rows:
        bench.record("peak memory", max(row["peak"] for row in rows) / 1e6, "MB", n=len(rows))


def add_arguments(parser):
    parser.add_argument("files", nargs="*", metavar="FILING.pdf", help="filings [default: three of each half of dev/pdf]")
    parser.add_argument("--pages", type=int, default=4, metavar="N", help="pages of a filing [default: 4]")
    parser.add_argument("--copies", metavar="NAME;…", help=f"only these copies: {'; '.join(VARIANTS)}".replace("%", "%%"))
