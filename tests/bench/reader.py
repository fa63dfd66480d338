"""Simulated models that see only what they are shown: `Reader` keeps every request and replies that the passages hold no answer;
`HonestReader` knows where questions are answered, and answers only where it is shown that.

Prompts of `stemma ask` have blocks `Passage N`, whose first line begins with a document's name and ends with `· page N`.
"""

import http.server
import json
import re
import threading
import time

from harness import document_name

# A passage is fenced by a random number; its first line names the document first and the page, or pages, last.
PASSAGE = re.compile(r"^Passage \d+:\n\[\d+\]\n(?P<document>[^\n]+?) · [^\n]*?\bpages? (?P<first>\d+)(?:[-–](?P<last>\d+))?$", re.MULTILINE)
BLOCK = re.compile(r"^(?P<name>[A-Z][a-z ]+?)(?: (?P<number>\d+))?:\n\[(?P<fence>[0-9a-f]+)\]\n(?P<text>.*?)\n\[/(?P=fence)\]", re.MULTILINE | re.DOTALL)
# A line about what was read: `read 3M_2022_10K#0019 · …`.
READ = re.compile(r"^read (?P<document>[^\n#]+)#", re.MULTILINE)
REPLY = {"answerable": False, "claims": [], "confidence": 0.0}
# Words that do not say what a question is about.
COMMON = set("what which when where does have been from with that this they their there were will would about into than then "
             "company companies fiscal year years much many based according document report page using give answer state".split())


def questions_of(rows):
    """Questions with gold pages whose document has text, with all these pages as `gold_pages` and sets that suffice as `gold_sets`."""
    rows = [row for row in rows if row.get("pdf_present", True) and row.get("text_layer", True)]
    sets = [row.get("gold_sets") or [row["gold_pages"]] for row in rows]
    return [row | {"gold_sets": pages, "gold_pages": sorted(set().union(*pages))} for row, pages in zip(rows, sets) if any(pages)]


def pages_shown(prompt):
    """The pages of a prompt as (document, page), in order."""
    shown = []
    for found in PASSAGE.finditer(prompt):
        name = document_name(found["document"].strip())
        first = int(found["first"])
        shown += [(name, page) for page in range(first, int(found["last"] or first) + 1)]
    return list(dict.fromkeys(shown))


class Reader:
    """Serves the dialect of OpenAI on a free port, each reply after `latency_ms`."""

    def __init__(self, latency_ms=0):
        reader = self
        self.taken, self.lock = [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                prompt = "\n".join(text_of(message) for message in request["messages"] if message["role"] == "user")
                schema = (request.get("response_format") or {}).get("json_schema") or {}
                reply = json.dumps(reader.reply(schema.get("name"), prompt))
                time.sleep(latency_ms / 1e3)
                with reader.lock:
                    reader.taken.append((schema.get("name"), prompt, reply))
                # No usage: Stemma then counts the tokens of the prompt itself.
                message = {"role": "assistant", "content": reply}
                body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "reader",
                                   "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def environment(self):
        return {"STEMMA_MODEL__NAME": "reader", "STEMMA_MODEL__BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1"}

    def reply(self, _stage, _prompt):
        return REPLY

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def take(self):
        """(stage, prompt, reply) of the requests since the last call."""
        with self.lock:
            taken, self.taken = self.taken, []
        return taken


class HonestReader(Reader):
    """Answers a question only if its gold pages are in the prompt, with some of them in part, and picks tools by its words."""

    def __init__(self, questions, latency_ms=0):
        self.gold = {" ".join(question["question"].split()): question for question in questions}
        super().__init__(latency_ms)

    def reply(self, stage, prompt):
        blocks = [(found["name"], found["text"]) for found in BLOCK.finditer(prompt)]
        text = next((" ".join(text.split()) for name, text in blocks if name == "Question"), "")
        question = self.gold.get(text)
        if question is None:
            return REPLY
        return self.tool(question, blocks) if stage == "choose_tool" else self.draft(question, prompt)

    def draft(self, question, prompt):
        claims = []
        for found in BLOCK.finditer(prompt):
            shown = {page for name, page in pages_shown(found.group(0)) if name == question["doc_name"]}
            lines = [line for line in found["text"].splitlines()[1:] if sum(map(str.isalpha, line)) > 3]
            if found["name"] == "Passage" and shown & set(question["gold_pages"]) and lines:
                claims.append({"statement": lines[0], "citations": [{"passage": int(found["number"]), "quote": lines[0]}]})
        missing = [] if shows_gold(question, prompt) else [question["question"][:200]]
        return REPLY | {"answerable": bool(claims), "claims": claims, "missing": missing, "confidence": 0.9}

    def tool(self, question, blocks):
        """First a search for the words that say what is asked, then the lines of the document that have the longest of them."""
        words = [word for word in re.findall(r"[A-Za-z][A-Za-z-]{3,}", question["question"]) if word.lower() not in COMMON]
        steps = sum(name == "Step" for name, _ in blocks)
        listed = READ.search("\n".join(text for name, text in blocks if name == "Found"))
        call = dict.fromkeys(("query", "document", "pages", "section", "item", "pattern"), "")
        call |= {"why": "it may be there", "query": " ".join(words), "document": listed["document"] if listed else ""}
        if steps % 2 == 1 or not listed:
            return call | {"tool": "search", "last": steps > 1}
        return call | {"tool": "grep_document", "pattern": max(words, key=len, default="total"), "last": True}


def shows_gold(question, prompt):
    """Whether a prompt has all pages of one of the sets of pages that suffice."""
    shown = {page for name, page in pages_shown(prompt) if name == question["doc_name"]}
    return any(set(pages) <= shown for pages in question["gold_sets"])


def text_shown(prompt, document, page):
    """The lines of a page that a prompt has."""
    lines = []
    for found in BLOCK.finditer(prompt):
        if found["name"] == "Passage" and (document, page) in pages_shown(found.group(0)):
            lines += found["text"].splitlines()[1:]
    return lines


def rows_of(lines):
    """Lines with two figures or more, without spaces."""
    return ["".join(line.split()) for line in lines if len(re.findall(r"(?<![\w.])\(?\d[\d,.]*", line)) > 1]


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
