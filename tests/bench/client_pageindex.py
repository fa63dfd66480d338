"""The published SDKs of PageIndex and OpenAI against `stemma serve`: client_pageindex.py URL FILING.pdf. `clients.py` runs it and counts
the lines that begin with `ok` and `FAILED`.
"""

import json
import re
import sys
import time
import urllib.request
import warnings
from importlib.metadata import version

import openai
from pageindex import PageIndexAPIError, PageIndexCloudClient

warnings.simplefilter("ignore")
QUESTION = "What are the risk factors?"


def check(holds, what):
    print(f"{'ok    ' if holds else 'FAILED'}  {what}", flush=True)


def refused(call, status):
    try:
        call()
    except PageIndexAPIError as error:
        return error.status_code == status
    return False


def reads(client):
    print("\n== lists, trees, pages")
    listed = client.list_documents(limit=50)
    documents = listed["documents"]
    check(listed["total"] == len(documents) >= 3, f"list_documents: {listed['total']} documents")
    check(all({"id", "name", "status", "pageNum", "folderId", "metadata"} <= set(one) for one in documents), "… with the fields of the SDK")
    folders = client.list_folders()
    check([one["name"] for one in folders["folders"]] == ["10-K"], "list_folders: the folder they were ingested from")
    inside = client.list_documents(folder_id=folders["folders"][0]["id"])
    check(inside["total"] == listed["total"], "list_documents of that folder")
    one = next(one for one in documents if one["pageNum"])
    doc = one["id"]
    check(client.get_document_id(one["name"]) == doc, "get_document_id by name")
    check(client.get_document(doc)["status"] == "completed" and client.is_retrieval_ready(doc), "get_document, is_retrieval_ready")
    check(client.get_document_path(doc) == f"10-K/{one['name']}", f"get_document_path: {client.get_document_path(doc)}")
    check(client.get_folder_id("10-K") == inside["documents"][0]["folderId"], "get_folder_id by path")
    tree = client.get_tree(doc, node_summary=True)
    nodes = list(walk(tree["result"]))
    check(tree["retrieval_ready"] and nodes and all({"title", "node_id", "start_index", "end_index", "text"} <= set(n) for n in nodes),
          f"get_tree: {len(nodes)} nodes with pages and text")
    check(max(node["end_index"] for node in nodes) == one["pageNum"], "… over all pages")
    structure = client.get_document_structure(doc)
    check(len(list(walk(structure))) == len(nodes) and "text" not in structure[0], "get_document_structure without text")
    pages = client.get_ocr(doc)["result"]
    check([page["page_index"] for page in pages] == list(range(1, one["pageNum"] + 1)), f"get_ocr: {len(pages)} pages")
    some = client.get_page_content(doc, "2-3,5")
    check([page["page_index"] for page in some] == [2, 3, 5] and all(page["markdown"] for page in some), "get_page_content 2-3,5")
    check(isinstance(client.get_ocr(doc, format="raw")["result"], str) and list(walk(client.get_ocr(doc, format="node")["result"])),
          "get_ocr raw and node")
    check(refused(lambda: client.get_tree("pi-none"), 404), "a document that is not there: 404")
    text = next(one for one in documents if not one["pageNum"])
    check(client.get_tree(text["id"])["result"][0]["title"] is not None, f"get_tree of {text['name']}, a text without pages")
    return doc, one["name"]


def walk(nodes):
    for node in nodes:
        yield node
        yield from walk(node.get("nodes") or [])


def retrieves(client, doc):
    print("\n== retrieval")
    submitted = client.submit_query(doc, "risk factors", thinking=True)
    found = client.get_retrieval(submitted["retrieval_id"])
    nodes = found["retrieved_nodes"]
    check(found["status"] == "completed" and nodes, f"submit_query, get_retrieval: {len(nodes)} nodes")
    check(all(node["relevant_contents"][0]["relevant_content"] for node in nodes), "… each with text")


def chats(client, doc, name):
    print("\n== chat")
    began = time.monotonic()
    text = client.chat(QUESTION, doc_id=doc)
    check(bool(text), f"chat: {len(text)} characters in {time.monotonic() - began:.2f} s")
    whole = client.chat_completions([{"role": "user", "content": QUESTION}], doc_id=doc, enable_citations=True)
    content = whole["choices"][0]["message"]["content"]
    stored = whole["stemma"]["citations"]
    print(f"       {whole['stemma']['outcome']}: {content[:160]!r}")
    check(whole["choices"][0]["finish_reason"] == "end_turn" and whole["usage"]["total_tokens"] >= 0, "chat_completions: finish_reason, usage")
    check(whole.choices[0].message.content == content, "… reads by attribute, as OpenAI's object")
    check(whole["stemma"]["outcome"] == "answered" and bool(stored), f"… answered, with {len(stored)} citations")
    cited = client.get_citations(content, doc_id=doc)
    check(bool(cited) and all(one["document"] == name and one["doc_id"] == doc for one in cited), f"get_citations: {len(cited)} places of {name}")
    check(bool(client.resolve_citations(content, doc_id=doc)["citations"]), "resolve_citations")
    pieces = list(client.chat_completions([{"role": "user", "content": QUESTION}], doc_id=doc, stream=True, enable_citations=True))
    check("".join(pieces) == content, f"stream: {len(pieces)} pieces are the same text")
    chunks = list(client.chat_completions([{"role": "user", "content": QUESTION}], doc_id=doc, stream=True, stream_metadata=True, enable_citations=True))
    check(chunks[-1]["stemma"]["citations"] == stored and chunks[-1]["id"] == whole["id"], "… the last chunk has the citations of the stored answer, same ids")
    check(chunks[-1]["citations"] == whole["citations"], "… and those of the dialect")
    woven = "".join(client.chat(QUESTION, doc_id=doc, stream=True))
    check("[tool_call]" in woven, "chat(stream=True) shows what is done on the way")
    several = client.chat([{"role": "user", "content": QUESTION}, {"role": "assistant", "content": text}, {"role": "user", "content": "And the risks?"}])
    check(bool(several), "chat over the whole library, with what was said before")
    check(refused(lambda: client.chat(QUESTION, doc_id="pi-none"), 404), "chat about a document that is not there: 404")
    return whole


def lends_tools(client):
    print("\n== tools for an agent of one's own")
    tools = {tool.__name__: tool for tool in client.agent_tools()}
    check({"browse_documents", "get_document", "get_document_structure", "get_page_content"} <= set(tools), f"agent_tools: {', '.join(tools)}")
    check("documents" in str(tools["browse_documents"](limit=1)), "… browse_documents is answered")
    check(bool(client.agent_instructions()) and "<cite" in client.citation_prompt(), "agent_instructions, citation_prompt")


def submits(client, new):
    print("\n== submission and removal")
    before = client.list_documents()["total"]
    began = time.monotonic()
    taken = client.submit_document(new, folder_id="/inbox", metadata={"fiscal_year": 2031}, wait=True)
    about = client.get_document(taken["doc_id"])
    check(about["status"] == "completed" and about["folderId"] == "/inbox", f"submit_document(wait=True): {time.monotonic() - began:.1f} s")
    check(about["metadata"].get("fiscal_year") == "2031", "… with what was stated about it")
    check(client.list_documents()["total"] == before + 1 and client.get_page_content(taken["doc_id"], "1")[0]["markdown"], "… is listed and read")
    again = client.submit_document(new, folder_id="/inbox", wait=True)
    check(again["doc_id"] == taken["doc_id"], "the same file again is the same document")
    check(refused(lambda: client.submit_document(new, metadata={"my_tag": 1}), 422), "a tag that is no fact: 422")
    client.delete_document(taken["doc_id"])
    check(client.list_documents()["total"] == before and refused(lambda: client.get_document(taken["doc_id"]), 404), "delete_document")
    check(refused(lambda: client.create_folder("mine"), 403), "create_folder: refused, with a reason")


def speaks_openai(url, whole):
    print("\n== OpenAI")
    with urllib.request.urlopen(f"{url}/v1/answers/{whole['id']}", timeout=10) as reply:
        stored = json.load(reply)
    check(stored["citations"] == whole["stemma"]["citations"], "the stored answer of that id has the same citations as the chat")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    models = [model.id for model in client.models.list()]
    check(models == ["default", "default/10-K"], f"models.list: {', '.join(models)}")
    check(client.models.retrieve("default/10-K").id == "default/10-K", "models.retrieve")
    ask = dict(model="default", messages=[{"role": "user", "content": QUESTION}])
    done = client.chat.completions.create(**ask)
    message = done.choices[0].message
    check(done.choices[0].finish_reason == "stop" and bool(message.content), "chat.completions.create")
    cited = message.annotations or []
    marks = [message.content[one.url_citation.start_index:one.url_citation.end_index] for one in cited]
    check(bool(cited) and all(re.fullmatch(r"\[\d+\]", mark) for mark in marks), f"… {len(cited)} url_citations: {', '.join(marks)}")
    with urllib.request.urlopen(cited[0].url_citation.url, timeout=10) as page:
        check(page.status == 200, f"… whose address can be opened: {cited[0].url_citation.url.removeprefix(url)[:60]}")
    check(bool(message.model_extra["stemma"]["citations"]), "… and the citations whole")
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    check(said == message.content and {chunk.id for chunk in chunks} == {done.id}, "stream: the same text under the same id")
    check(chunks[-1].usage is not None and chunks[-2].model_extra["stemma"]["citations"] == message.model_extra["stemma"]["citations"], "… usage and citations in the last chunks")
    try:
        client.chat.completions.create(model="gpt-none", messages=ask["messages"])
        check(False, "a model that is not there")
    except openai.NotFoundError as error:
        check(error.code == "model_not_found", "a model that is not there: NotFoundError, model_not_found")


def main():
    url, more = sys.argv[1], sys.argv[2]
    print(f"pageindex {version('pageindex')} · openai {version('openai')}")
    PageIndexCloudClient.BASE_URL = url
    client = PageIndexCloudClient(api_key="any")
    wait_until_ready(client)
    doc, name = reads(client)
    retrieves(client, doc)
    lends_tools(client)
    submits(client, more)
    speaks_openai(url, chats(client, doc, name))


def wait_until_ready(client):
    deadline = time.monotonic() + 60
    while True:
        try:
            first = client.list_documents(limit=1)["documents"][0]["id"]
            if client.get_retrieval(client.submit_query(first, "sales")["retrieval_id"]):
                return
        except Exception:  # it is starting
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


if __name__ == "__main__":
    main()
