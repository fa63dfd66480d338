"""Small reports made by hand: pages of lines in two sizes, as PDF."""

import random

WORDS = ("revenue margin segment customers products contracts leases debt notes interest currency inflation supply demand "
         "regulation compliance litigation claims estimates judgment goodwill assets cash flows dividends shares plan "
         "employees pension benefit taxes income rates hedges derivatives risk market competition technology").split()
HEAD, BODY = 15, 10


def prose(seed, lines=34):
    """Lines of running text that no other seed has."""
    chance = random.Random(seed)
    sentence = lambda: " ".join(chance.choice(WORDS) for _ in range(11)).capitalize()
    return [f"{sentence()} {chance.randint(100, 999_999):,}." for _ in range(lines)]


def filing(seed, sections=12, pages_each=2, edit=None):
    """Pages of (line, size): a cover, a table of contents, sections. `edit` changes pages in place: {page: change}."""
    titles = [f"Chapter {n}. {' '.join(random.Random(f'{seed} {n}').sample(WORDS, 3)).title()}" for n in range(1, sections + 1)]
    cover = [("ANNUAL REPORT", HEAD), (f"For the year ended December 31, {2_000 + seed % 24}", BODY), (f"EXAMPLE {seed} CORPORATION", HEAD),
             ("(Exact name of registrant as specified in its charter)", BODY)]
    rows = [(f"{title} {'.' * 40} {3 + at * pages_each}", BODY) for at, title in enumerate(titles)]
    pages = [cover, [("TABLE OF CONTENTS", HEAD)] + rows]
    for number, title in enumerate(titles):
        for page in range(pages_each):
            head = [(title, HEAD)] if page == 0 else []
            pages.append(head + [(line, BODY) for line in prose(f"{seed} {number} {page}")])
    for page, change in (edit or {}).items():
        pages[page - 1] = change(pages[page - 1])
    return pages


def pdf(pages):
    """The bytes of a PDF with these pages; text in WinAnsi, one line below the other."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", None,
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>"]
    kids = []
    for lines in pages:
        content, y = [], 740
        for text, size in lines:
            escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
            content.append(f"BT /F{2 if size > BODY else 1} {size} Tf 60 {y} Td ({escaped}) Tj ET")
            y -= size + (14 if size > BODY else 4)
        stream = "\n".join(content)
        objects.append(f"<< /Length {len(stream.encode('cp1252'))} >>\nstream\n{stream}\nendstream")
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
                       "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>")
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body.encode("cp1252") + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    return out + f"{end}startxref\n{len(out)}\n%%EOF\n".encode()


def write(folder, count, first_seed=1, **shape):
    """Writes filings 1 … count into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"filing-{number + 1}.pdf").write_bytes(pdf(filing(first_seed + number, **shape)))
    return folder
