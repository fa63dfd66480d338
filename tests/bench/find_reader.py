"""A provider for measuring what a model is shown: it keeps every request and replies that the passages hold no answer.

Prompts of `stemma ask` have blocks `Passage N`, whose first line begins with a document's name and ends with `· page N`.
"""

import http.server
import json
import re
import threading

# A passage is fenced by a random number; its first line names the document first and the page, or pages, last.
PASSAGE = re.compile(r"^Passage \d+:\n\[\d+\]\n(?P<document>[^\n]+?) · [^\n]*?\bpages? (?P<first>\d+)(?:[-–](?P<last>\d+))?$", re.MULTILINE)
REPLY = {"answerable": False, "claims": [], "confidence": 0.0}


def pages_shown(prompt):
    """The pages of a prompt as (document, page), in order."""
    shown = []
    for found in PASSAGE.finditer(prompt):
        name = re.sub(r"\.(pdf|md|txt)$", "", found["document"].strip())
        first = int(found["first"])
        shown += [(name, page) for page in range(first, int(found["last"] or first) + 1)]
    return list(dict.fromkeys(shown))


class Reader:
    """Serves the dialect of OpenAI on a free port. `prompts` has the user's part of each request since the last `take`."""

    def __init__(self):
        reader = self
        self.prompts, self.lock = [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with reader.lock:
                    reader.prompts.append("\n".join(text_of(message) for message in request["messages"] if message["role"] == "user"))
                # No usage: Stemma then counts the tokens of the prompt itself.
                message = {"role": "assistant", "content": json.dumps(REPLY)}
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

    def take(self):
        """The prompts since the last call."""
        with self.lock:
            prompts, self.prompts = self.prompts, []
        return prompts


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
