"""Rewrites HTML filings as other filers set them, and moves the truths about their Items along.

usage: html_variants.py VARIANT DATA_FOLDER OUTPUT_FOLDER
Writes OUTPUT/filings/NAME.htm and OUTPUT/truth/NAME.json for each filing of half A that the variant can be made of.
html_variants.py --predict OUTPUT reads OUTPUT/items/NAME.json as `stemma --json items` prints them, and writes
OUTPUT/items.jsonl for eval_items.py. html_variants.py --list prints the names of the variants.
"""

import collections
import json
import pathlib
import re
import sys

from html import INVISIBLE, prediction

TOKEN = re.compile(rb"<!--.*?-->|<[!/?]?[A-Za-z][^>]*>|<[!?][^>]*>|[^<]+|<", re.S)
TAG_NAME = re.compile(rb"</?([A-Za-z][\w:.-]*)")
VOID = {b"br", b"hr", b"img", b"input", b"meta", b"link", b"col"}
BREAK_STYLE = re.compile(rb"(?:page-)?break-(?:after|before)\s*:\s*(?:always|page)\s*;?", re.I)
ITEM = re.compile(r"^\s*item\s*(\d+[a-c]?)[\s.:\u2013\u2014-]*", re.I)
PART = re.compile(r"^\s*part\s+(i{1,3}|iv)\b", re.I)
# Filings before 2003 had none of these Items; their text belonged to the Item before.
LATER_ITEMS = {"1A", "1B", "1C", "9A", "9B", "9C", "14", "16"}


def decode(raw):
    text = raw.decode("utf-8", "replace")
    text = re.sub(r"&(?:nbsp|#160|#xa0);", " ", text, flags=re.I)
    text = re.sub(r"&(?:#8217|rsquo|#39);", "’", text)
    return text.replace("&amp;", "&").replace("\xa0", " ")


def letters(text):
    return re.sub(r"[^a-z0-9]", "", text.lower())


class Filing:
    """A filing as tokens, with the places of its Items, its page breaks and its contents."""

    def __init__(self, raw, truth):
        self.raw, self.truth = raw, truth
        self.items = sorted((item for item in truth["items"] if item.get("byte") is not None), key=lambda item: item["byte"])
        self.tokens = [match.span() for match in TOKEN.finditer(raw)]
        self.texts, self.breaks, self.opened_at = [], [], {}
        self.read()
        first = self.items[0]["byte"]
        self.front = [text for text in self.texts if text[1] <= first]

    def read(self):
        """Fills `texts` (visible text nodes), `breaks` (element of each page break) and `opened_at` (see block_start)."""
        stack, hidden, fresh = [], 0, []
        starts = {item["byte"] for item in self.items}
        for start, end in self.tokens:
            token = self.raw[start:end]
            name = TAG_NAME.match(token)
            if not token.startswith(b"<"):
                if token.strip() and not hidden and decode(token).strip():
                    for byte in [byte for byte in starts if start <= byte < end]:
                        self.opened_at[byte] = fresh[0] if fresh else byte
                    self.texts.append((start, end))
                    fresh = []
                continue
            if not name or token.startswith(b"<!"):
                continue
            tag = name[1].lower()
            if token.startswith(b"</"):
                while stack and any(entry[0] == tag for entry in stack):
                    closed = stack.pop()
                    hidden -= closed[1]
                    if fresh and closed[2] in fresh:
                        fresh = fresh[: fresh.index(closed[2])]
                    if closed[3]:
                        self.breaks.append((closed[2], end))
                    if closed[0] == tag:
                        break
                continue
            is_hidden = tag in (b"ix:header", b"head", b"script", b"style") or b"display:none" in token.replace(b" ", b"")
            is_break = bool(BREAK_STYLE.search(token))
            if tag in VOID or token.endswith(b"/>"):
                if is_break and not hidden:
                    self.breaks.append((start, end))
                    fresh = []
                continue
            if is_break and not hidden and b"before" in BREAK_STYLE.search(token)[0].lower():
                self.breaks.append((start, start))
                fresh = []
                is_break = False
            stack.append((tag, is_hidden, start, is_break and not hidden))
            hidden += is_hidden
            if not hidden:
                fresh.append(start)
        self.breaks.sort()

    def block_start(self, item):
        """Where the outermost element begins whose first visible text is the heading of the Item."""
        return self.opened_at.get(item["byte"], item["byte"])

    def heading(self, item):
        """The text nodes of the heading of an Item."""
        wanted = letters(item["heading"])
        found, seen = [], ""
        for start, end in self.texts:
            if end <= item["byte"]:
                continue
            found.append((max(start, item["byte"]), end))
            seen += letters(decode(self.raw[max(start, item["byte"]) : end]))
            if len(seen) >= len(wanted):
                return found if seen == wanted else None
        return None

    def contents(self):
        """The text nodes of the table of contents: from the first Item listed to the first heading."""
        listed = [index for index, (start, end) in enumerate(self.front) if ITEM.match(decode(self.raw[start:end]))]
        return self.front[listed[0] :] if listed else []

    def item_at(self, byte):
        before = [item for item in self.items if item["byte"] <= byte < item.get("next_byte", item["end_byte"])]
        return before[-1] if before else None


class Draft:
    """The new bytes as pieces of the old file and added text."""

    def __init__(self, filing):
        self.filing, self.edits, self.moves = filing, [], None
        self.truth = json.loads(json.dumps(filing.truth))

    def replace(self, start, end, text):
        self.edits.append((start, end, text if isinstance(text, bytes) else text.encode()))

    def insert(self, at, text):
        self.replace(at, at, text)

    def item(self, part, number):
        return next((item for item in self.truth["items"] if (item["part"], item["item"]) == (part, number)), None)

    def pieces(self):
        """(old start, old end, new text) in the order of the new file."""
        raw, at, pieces = self.filing.raw, 0, []
        for start, end, text in sorted(self.edits, key=lambda edit: (edit[0], edit[1])):
            if start < at:
                continue
            pieces += [(at, start, raw[at:start]), (start, end, text)]
            at = end
        pieces.append((at, len(raw), raw[at:]))
        if self.moves:
            # Two neighboring ranges change places.
            first, second, end = self.moves
            cut = []
            for start, stop, text in pieces:
                for border in (first, second, end):
                    if start < border < stop:
                        cut.append((start, border, text[: border - start]))
                        text, start = text[border - start :], border
                cut.append((start, stop, text))
            ahead = [piece for piece in cut if piece[1] <= first and piece[0] < first]
            one = [piece for piece in cut if first <= piece[0] and piece[1] <= second and piece[0] < second]
            two = [piece for piece in cut if second <= piece[0] and piece[1] <= end and piece[0] < end]
            behind = [piece for piece in cut if piece[0] >= end]
            pieces = ahead + two + one + behind
        return pieces

    def finish(self):
        """The new file, with the bytes of the truth moved."""
        places, at, pieces = [], 0, self.pieces()
        for start, end, text in pieces:
            if end > start:
                places.append((start, end, at, len(text)))
            at += len(text)
        places.sort()
        new = b"".join(text for _, _, text in pieces)

        def moved(byte):
            for start, end, at, length in places:
                if start <= byte < end:
                    return at + min(byte - start, length)
            return at

        for item in self.truth["items"]:
            if item.get("byte") is None:
                continue
            item["byte"] = moved(item["byte"])
            last = max((end for start, end in self.filing.texts if start < item["end_byte"]), default=item["end_byte"])
            item["end_byte"] = INVISIBLE.match(new, moved(min(last, item["end_byte"]) - 1) + 1).end()
            if "next_byte" in item:
                item["next_byte"] = moved(item["next_byte"])
            if "byte_ranges" in item:
                item["byte_ranges"] = [[moved(low), moved(high - 1) + 1] for low, high in item["byte_ranges"]]
        if self.moves:
            starts = [item["byte"] for item in self.truth["items"] if item.get("byte") is not None]
            for item in self.truth["items"]:
                if item.get("byte") is not None:
                    item["next_byte"] = min((at for at in starts if at >= item["end_byte"]), default=item["end_byte"])
        return new


VARIANTS = {}


def variant(make):
    VARIANTS[make.__name__.replace("_", "-")] = make
    return make


@variant
def unchanged(filing, draft):
    """The filing as it is."""


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def title_of(item):
    return re.sub(r"^\s*item\s*\d+[a-c]?[\s.:–—-]*", "", item["heading"], flags=re.I).strip()


def repeat_on_pages(filing, draft, text, before=False):
    for start, end in filing.breaks:
        # A heading at the top of a page needs no running head.
        first = next((text[0] for text in filing.texts if text[0] >= end), len(filing.raw))
        starts_item = any(item["byte"] == first for item in filing.items)
        item = filing.item_at(start if before else first)
        if item and (before or not starts_item):
            line = f'<div style="text-align:center"><span style="font-size:10pt;font-weight:700">{escape(text(item))}</span></div>'
            draft.insert(start if before else end, line)


@variant
def running_heads(filing, draft):
    """The title of the Item at the top of each page, in bold."""
    repeat_on_pages(filing, draft, lambda item: item["heading"])


@variant
def continued_heads(filing, draft):
    """The title of the Item at the top of each page, with `(continued)`."""
    repeat_on_pages(filing, draft, lambda item: item["heading"] + " (continued)")


@variant
def item_feet(filing, draft):
    """The title of the Item at the bottom of each page."""
    repeat_on_pages(filing, draft, lambda item: f"Item {item['item']}. {title_of(item)}", before=True)


@variant
def rules_for_breaks(filing, draft):
    """Rules between pages in place of styles."""
    for start, end in filing.breaks:
        draft.insert(end, "<hr/>")
    for start, end in filing.tokens:
        token = filing.raw[start:end]
        if token.startswith(b"<") and BREAK_STYLE.search(token):
            draft.replace(start, end, b"" if TAG_NAME.match(token)[1].lower() == b"hr" else BREAK_STYLE.sub(b"", token))


@variant
def no_breaks(filing, draft):
    """No marks between pages."""
    for start, end in filing.tokens:
        token = filing.raw[start:end]
        if token.startswith(b"<") and BREAK_STYLE.search(token):
            draft.replace(start, end, b"" if TAG_NAME.match(token)[1].lower() == b"hr" else BREAK_STYLE.sub(b"", token))


@variant
def no_links(filing, draft):
    """No links inside of the filing."""
    for start, end in filing.tokens:
        token = filing.raw[start:end]
        if token[:2].lower() == b"<a" and re.search(rb"href\s*=\s*[\"']?#", token, re.I):
            draft.replace(start, end, b"<a>")


def drop_labels(filing, draft):
    for start, end in filing.contents():
        if re.fullmatch(r"\s*\d{1,3}\s*", decode(filing.raw[start:end])):
            draft.replace(start, end, b"")


@variant
def no_labels(filing, draft):
    """No page numbers in the contents."""
    drop_labels(filing, draft)


@variant
def bare_contents(filing, draft):
    """Neither links nor page numbers in the contents."""
    no_links(filing, draft)
    drop_labels(filing, draft)


@variant
def no_contents(filing, draft):
    """No contents at all."""
    for start, end in filing.contents():
        draft.replace(start, end, b"")


def rewrite(filing, draft, make):
    """Sets each heading anew: `make` gives markup for an Item, which replaces the text of its heading."""
    for item in filing.items:
        nodes = filing.heading(item)
        text = nodes and make(item)
        if text is None or nodes is None:
            continue
        draft.replace(*nodes[0], text)
        for start, end in nodes[1:]:
            draft.replace(start, end, b"")


def numbered(form):
    return lambda item: escape(form.format(number=item["item"], title=title_of(item)))


for name, form, about in [
    ("colon", "ITEM {number}: {title}", "A colon behind the number."),
    ("dash", "Item {number} – {title}", "A dash behind the number."),
    ("no_dot", "Item {number} {title}", "No mark behind the number."),
    ("item_no", "Item No. {number} {title}", "`Item No.` before the number."),
    ("no_titles", "Item {number}.", "Headings without titles."),
    ("no_numbers", "{title}", "Headings without numbers."),
    ("bare_numbers", "{number}. {title}", "Headings without the word Item."),
]:

    def make(filing, draft, form=form):
        rewrite(filing, draft, numbered(form))

    make.__name__, make.__doc__ = name, about
    variant(make)


@variant
def upper_case(filing, draft):
    """Headings in capitals."""
    rewrite(filing, draft, lambda item: escape(item["heading"].upper()))


@variant
def sentence_case(filing, draft):
    """Titles with one capital."""
    rewrite(filing, draft, lambda item: escape(f"Item {item['item']}. {title_of(item).capitalize()}"))


@variant
def styled_capitals(filing, draft):
    """Headings in lower case that a style makes capitals of."""
    rewrite(filing, draft, lambda item: f'<span style="text-transform:uppercase">{escape(item["heading"].lower())}</span>')


@variant
def with_part(filing, draft):
    """`Part II, Item 7.` in each heading."""
    rewrite(filing, draft, lambda item: escape(f"Part {item['part']}, Item {item['item']}. {title_of(item)}"))


@variant
def cells(filing, draft):
    """Number and title in two cells of a table."""
    rewrite(
        filing,
        draft,
        lambda item: f'<table><tr><td style="width:12%">Item {item["item"]}.</td><td>{escape(title_of(item))}</td></tr></table>',
    )


@variant
def spans(filing, draft):
    """Headings cut into spans in the middle of words."""

    def make(item):
        text = item["heading"]
        cuts = [text[:2], text[2:7], text[7:11], text[11:]]
        return "".join(f"<span>{escape(part)}</span>" for part in cuts if part)

    rewrite(filing, draft, make)


@variant
def lines(filing, draft):
    """Number and title in lines of their own, long titles in two."""

    def make(item):
        words = title_of(item).split()
        half = len(words) // 2 if len(words) > 6 else len(words)
        rows = [f"Item {item['item']}.", " ".join(words[:half]), " ".join(words[half:])]
        return "<br/>".join(escape(row) for row in rows if row)

    rewrite(filing, draft, make)


@variant
def plain(filing, draft):
    """Headings in the weight of the text."""
    rewrite(
        filing,
        draft,
        lambda item: f'<span style="font-weight:400;font-style:normal;text-decoration:none">{escape(item["heading"])}</span>',
    )


@variant
def run_in(filing, draft):
    """The text of an Item in the line of its heading."""
    for item in filing.items:
        nodes = filing.heading(item)
        if not nodes:
            continue
        behind = next((text for text in filing.texts if text[0] >= nodes[-1][1]), None)
        if behind is None or behind[0] >= item["end_byte"]:
            continue
        between = filing.raw[nodes[-1][1] : behind[0]]
        if re.search(rb"<(?:table|td|tr|hr|img)", between, re.I):
            continue
        words = filing.raw[behind[0] : behind[1]]
        draft.insert(nodes[-1][1], b'. <span style="font-weight:400">' + words + b"</span>")
        draft.replace(*behind, b"")


def drop_texts(filing, draft, texts):
    for start, end in texts:
        draft.replace(start, end, b"")


@variant
def no_parts(filing, draft):
    """No PART lines outside of the contents."""
    first = filing.block_start(filing.items[0])
    for index, (start, end) in enumerate(filing.texts):
        text = decode(filing.raw[start:end]).strip()
        near = start >= first or start >= filing.items[0]["byte"] - 3_000
        if near and PART.match(text) and len(text.split()) <= 6 and not re.search(r"item", text, re.I):
            draft.replace(start, end, b"")


@variant
def contents_per_part(filing, draft):
    """Contents of each PART before its first Item."""
    for part in ("I", "II", "III", "IV"):
        own = [item for item in filing.items if item["part"] == part]
        if not own:
            continue
        rows = "".join(
            f'<tr><td>Item {item["item"]}.</td><td>{escape(title_of(item))}</td><td style="text-align:right">'
            f"{item.get('printed_page') or item['page']}</td></tr>"
            for item in own
        )
        at = filing.block_start(own[0])
        draft.insert(at, f'<table style="width:100%">{rows}</table>')


@variant
def old_markup(filing, draft):
    """`font`, `b` and `center` in place of styles, rules between pages, no XBRL."""
    stack = []
    broken = {start for start, _ in filing.breaks}
    skipped_until = 0
    for start, end in filing.tokens:
        token = filing.raw[start:end]
        name = TAG_NAME.match(token)
        if not name or token.startswith(b"<!") or start < skipped_until:
            continue
        tag = name[1].lower()
        style = (re.search(rb"style\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", token, re.I) or [b"", b"", b""])
        style = ((style[1] or style[2]) if style[0] else b"").replace(b" ", b"").lower()
        if token.startswith(b"</"):
            while stack:
                opened, closing = stack.pop()
                if opened == tag:
                    draft.replace(start, end, closing if closing is not None else token)
                    break
            continue
        if b"display:none" in style and tag == b"div":
            depth = 0
            for inner in re.finditer(rb"<(/?)div\b[^>]*?(/?)>", filing.raw[start:], re.I):
                depth += -1 if inner[1] else 0 if inner[2] else 1
                if depth == 0:
                    skipped_until = start + inner.end()
                    break
            draft.replace(start, skipped_until, b"")
            continue
        if tag in VOID or token.endswith(b"/>"):
            if tag == b"hr":
                draft.replace(start, end, b"<HR>" if start in broken else b"")
            elif tag == b"div":
                anchor = re.search(rb"id=\"([^\"]*)\"", token)
                draft.replace(start, end, b'<A NAME="' + anchor[1] + b'"></A>' if anchor else b"")
            continue
        anchor = re.search(rb"\bid=\"([^\"]*)\"", token)
        name_it = b'<A NAME="' + anchor[1] + b'"></A>' if anchor and tag in (b"div", b"p", b"span") else b""
        is_bold = b"font-weight:700" in style or b"font-weight:bold" in style
        is_italic = b"font-style:italic" in style
        if tag.startswith(b"ix:"):
            stack.append((tag, b""))
            draft.replace(start, end, b"")
        elif tag in (b"span", b"font"):
            size = b'<FONT SIZE="2">'
            bold, unbold = (b"<B>", b"</B>") if is_bold else (b"", b"")
            slant, unslant = (b"<I>", b"</I>") if is_italic else (b"", b"")
            stack.append((tag, unslant + unbold + b"</FONT>"))
            draft.replace(start, end, name_it + size + bold + slant)
        elif tag in (b"div", b"p"):
            centered = b"text-align:center" in style
            before = b"<HR>" if start in broken and b"before" in style else b""
            after = b"<HR>" if start in broken and b"before" not in style else b""
            stack.append((tag, (b"</CENTER>" if centered else b"</DIV>") + after))
            draft.replace(start, end, before + (b"<CENTER>" if centered else b"<DIV>") + name_it)
        else:
            stack.append((tag, None))
            if tag == b"td" and style:
                right = b' ALIGN="right"' if b"text-align:right" in style else b""
                shape = b"".join(b" " + part for part in re.findall(rb"(?:colspan|rowspan)=\"\d+\"", token))
                draft.replace(start, end, b"<TD" + shape + right + b">")


@variant
def one_table(filing, draft):
    """The whole filing in one cell."""
    body = next((end for start, end in filing.tokens if filing.raw[start : start + 5].lower() == b"<body"), None)
    closing = next((start for start, end in reversed(filing.tokens) if filing.raw[start:end].lower() == b"</body>"), None)
    if body is None or closing is None:
        return False
    draft.insert(body, "<table><tr><td>")
    draft.insert(closing, "</td></tr></table>")


@variant
def table_per_page(filing, draft):
    """Each page in a cell of one table."""
    if one_table(filing, draft) is False or any(start == end for start, end in filing.breaks):
        return False
    for start, end in filing.breaks:
        draft.insert(end, "</td></tr><tr><td>")


def is_balanced(raw):
    depth = collections.Counter()
    for match in re.finditer(rb"<(/?)(div|table|tr|td|p|span|font|ix:continuation|ix:nonnumeric|center)\b[^>]*?(/?)>", raw, re.I):
        if not match[3]:
            depth[match[2].lower()] += -1 if match[1] else 1
            if depth[match[2].lower()] < 0:
                return False
    return not any(depth.values())


def swap(filing, draft, first, second):
    for one, two, behind in zip(filing.items, filing.items[1:], filing.items[2:]):
        if (one["item"], two["item"]) != (first, second) or not one["part"] == two["part"] == behind["part"]:
            continue
        places = [filing.block_start(item) for item in (one, two, behind)]
        if all(is_balanced(filing.raw[start:end]) for start, end in zip(places, places[1:])):
            draft.moves = places
            return True
    return False


@variant
def other_order(filing, draft):
    """Two Items have changed places."""
    pairs = [("2", "3"), ("7", "7A"), ("9A", "9B"), ("10", "11"), ("1", "1A"), ("1A", "2"), ("5", "6")]
    # Not the same two in all filings.
    first = len(filing.raw) % len(pairs)
    return any(swap(filing, draft, *pair) for pair in pairs[first:] + pairs[:first])


def combine(filing, draft, first, second):
    one = next((item for item in filing.items if item["item"] == first), None)
    two = next((item for item in filing.items if item["item"] == second and one and item["part"] == one["part"]), None)
    if not one or not two or filing.items.index(two) != filing.items.index(one) + 1:
        return False
    heads = filing.heading(one), filing.heading(two)
    if not all(heads):
        return False
    title = f"Items {first} and {second}. {title_of(one)} and {title_of(two)}"
    draft.replace(*heads[0][0], escape(title))
    drop_texts(filing, draft, heads[0][1:] + heads[1])
    pair = [draft.item(one["part"], number) for number in (first, second)]
    pair[0]["end_byte"], pair[0]["next_byte"] = two["end_byte"], two.get("next_byte", two["end_byte"])
    pair[1]["byte"] = one["byte"]
    for own, other in zip(pair, (second, first)):
        own.update(pair[0] | {"item": own["item"], "status": "combined", "combined_with": [other]})
        own["end_unsure"] = two.get("end_unsure", False)
    return True


@variant
def combined(filing, draft):
    """`Items 7 and 7A` under one heading, or two others."""
    return any(combine(filing, draft, *pair) for pair in [("7", "7A"), ("2", "3"), ("1", "1A")])


def leave_out(filing, draft, numbers):
    """Gives the text of these Items to the Item before."""
    before = None
    for item in filing.items:
        new = draft.item(item["part"], item["item"])
        if item["item"] in numbers and before is not None:
            nodes = filing.heading(item)
            if not nodes:
                return False
            drop_texts(filing, draft, nodes)
            old = draft.item(before["part"], before["item"])
            if before["part"] != item["part"]:
                return False
            old["end_byte"], old["next_byte"] = new["end_byte"], new.get("next_byte", new["end_byte"])
            old["end_unsure"] = old.get("end_unsure", False) or new.get("end_unsure", False)
            old["status_unsure"] = True
            draft.truth["items"].remove(new)
        else:
            before = item
    index = {"".join(number.split()) for number in numbers}
    inside = False
    for start, end in filing.contents():
        text = decode(filing.raw[start:end])
        named = ITEM.match(text)
        if named:
            inside = named[1].upper() in index
        elif PART.match(text) or re.match(r"\s*signatures?", text, re.I):
            inside = False
        if inside:
            draft.replace(start, end, b"")
    return True


@variant
def before_2003(filing, draft):
    """Only the Items of 1999, and exhibits as Item 14."""
    if filing.truth["form"] != "10-K" or leave_out(filing, draft, LATER_ITEMS) is False:
        return False
    exhibits = next((item for item in filing.items if item["item"] == "15"), None)
    nodes = exhibits and filing.heading(exhibits)
    if not nodes:
        return False
    draft.replace(*nodes[0], "Item 14. Exhibits, Financial Statement Schedules and Reports on Form 8-K")
    drop_texts(filing, draft, nodes[1:])
    draft.item(exhibits["part"], "15")["item"] = "14"
    for start, end in filing.contents():
        text = filing.raw[start:end]
        if ITEM.match(decode(text)) and ITEM.match(decode(text))[1] == "15":
            draft.replace(start, end, re.sub(rb"15", b"14", text, count=1))
    # The cover and the facts name the year.
    for start, end in filing.tokens:
        text = filing.raw[start:end]
        if not text.startswith(b"<") and re.search(rb"\b20[012]\d\b", text):
            draft.replace(start, end, re.sub(rb"\b20[012](\d)\b", rb"199\1", text))
    return True


@variant
def cross_index(filing, draft):
    """An index with page numbers in place of headings."""
    rows = []
    labels = filing.truth.get("printed_pages") or []
    if sum(label is not None for label in labels) < len(labels) / 2:
        return False
    for item in filing.items:
        nodes = filing.heading(item)
        if not nodes:
            return False
        title = title_of(item)
        draft.replace(*nodes[0], escape(title))
        drop_texts(filing, draft, nodes[1:])
        new = draft.item(item["part"], item["item"])
        first, last = page_of(filing, item["byte"]), page_of(filing, item["end_byte"] - 1)
        if first >= len(labels) or labels[first] is None or labels[last] is None:
            return False
        if item["status"] == "stub" and item.get("kind") in ("none", "reserved"):
            place = "Not applicable"
            new["status"] = "stub"
            new.pop("starts_with", None)
            new.pop("ends_with", None)
        elif item["status"] == "stub" and item.get("kind") == "by_reference":
            place = "Proxy Statement"
            new["status"] = "stub"
            new.pop("starts_with", None)
            new.pop("ends_with", None)
        else:
            place = labels[first] if first == last else f"{labels[first]}-{labels[last]}"
            new["status"] = "crossref"
            edges = [0] + [end for _, end in filing.breaks] + [len(filing.raw)]
            new["byte_ranges"] = [[edges[first], edges[min(last + 1, len(edges) - 1)]]]
            new.pop("ends_with", None)
        rows.append((item, escape(title), place))
    no_contents(filing, draft)
    no_parts(filing, draft)
    rows.sort(key=lambda row: (row[0]["part"], int(re.match(r"\d+", row[0]["item"])[0]), row[0]["item"]))
    table, part = "", None
    for item, title, place in rows:
        if item["part"] != part:
            part = item["part"]
            table += f"<tr><td>Part {part}</td><td></td><td></td></tr>"
        table += f"<tr><td>Item {item['item']}.</td><td>{title}</td><td>{place}</td></tr>"
    closing = next((start for start, end in reversed(filing.tokens) if filing.raw[start:end].lower() == b"</body>"), len(filing.raw))
    head = f'<div style="text-align:center"><span style="font-weight:700">Form {filing.truth["form"]} Cross-Reference Index</span></div>'
    draft.insert(closing, f'<hr style="page-break-after:always"/>{head}<table>{table}</table>')
    return True


def page_of(filing, byte):
    return sum(end <= byte for _, end in filing.breaks)


def predict(output):
    with open(output / "items.jsonl", "w") as predictions:
        for path in sorted((output / "items").glob("*.json")):
            raw = (output / "filings" / f"{path.stem}.htm").read_bytes()
            items = json.loads(path.read_text())["items"]
            predictions.write(json.dumps(prediction(path.stem, items, raw)) + "\n")


def main():
    if sys.argv[1:] == ["--list"]:
        for name, make in VARIANTS.items():
            print(f"{name:20} {make.__doc__}")
        return
    if sys.argv[1] == "--predict":
        predict(pathlib.Path(sys.argv[2]))
        return
    make = VARIANTS[sys.argv[1]]
    data, output = map(pathlib.Path, sys.argv[2:4])
    for folder in ("filings", "truth"):
        (output / folder).mkdir(parents=True)
    for path in sorted((data / "truth" / "items").glob("[A-H]*.json")):
        truth = json.loads(path.read_text())
        filing = Filing((data / "filings" / truth["file"]).read_bytes(), truth)
        draft = Draft(filing)
        if make(filing, draft) is False:
            continue
        (output / "filings" / truth["file"]).write_bytes(draft.finish())
        (output / "truth" / path.name).write_text(json.dumps(draft.truth))


if __name__ == "__main__":
    main()
