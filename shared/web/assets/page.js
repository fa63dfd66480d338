"use strict";
// Pages work without this script. It adds what needs one.

// The collection opens when it is chosen.
for (const select of document.querySelectorAll(".collections select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

// A page image that cannot be loaded says so instead of showing a broken picture.
for (const image of document.querySelectorAll("img[data-page]")) {
  const fail = () => image.closest("figure, .thumbnail")?.classList.add("failed");
  image.addEventListener("error", fail);
  if (image.complete && image.naturalWidth === 0) fail();
}

// The progress of an answer, until its page can be shown.
const progress = document.getElementById("progress");
if (progress) {
  const step = progress.querySelector(".step");
  const sections = progress.querySelector(".sections-read");
  const streamed = progress.querySelector(".streamed");
  const events = new EventSource(progress.dataset.stream);
  const on = (name, handle) => events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  on("step", (data) => { step.textContent = data.what; });
  on("section", (data) => {
    const entry = document.createElement("li");
    entry.textContent = `${data.path[data.path.length - 1] ?? ""} (${data.name})`;
    sections.append(entry);
  });
  on("delta", (data) => { streamed.textContent += data.text; });
  on("done", () => { events.close(); location.reload(); });
  events.addEventListener("error", (event) => {
    // The server's own event has data; a lost connection has none, and the browser connects again.
    if (event.data) {
      events.close();
      step.textContent = JSON.parse(event.data).message;
    } else {
      step.textContent = "The server does not answer. Trying again…";
    }
  });
}

// The proof of a claim is shown when its mark is pointed at or has the focus.
for (const mark of document.querySelectorAll("a.cite")) {
  const show = () => {
    const proof = document.getElementById(mark.hash.slice(1));
    for (const shown of document.querySelectorAll(".citation.shown")) shown.classList.remove("shown");
    proof?.classList.add("shown");
    document.querySelector(".proof")?.classList.add("chosen");
  };
  mark.addEventListener("mouseenter", show);
  mark.addEventListener("focus", show);
}
