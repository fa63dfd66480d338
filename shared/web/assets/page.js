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

// Parts that change are read again. When the server does not answer, the page says so, and goes on when it is back.
if (document.querySelector("[data-live]")) {
  const notice = document.createElement("p");
  notice.className = "remarks away";
  notice.setAttribute("role", "alert");
  const say = (text) => {
    notice.textContent = text;
    if (text) document.querySelector("main").prepend(notice); else notice.remove();
  };
  const refresh = async () => {
    if (!document.hidden) {
      try {
        const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(8000) });
        if (!response.ok) throw new Error(String(response.status));
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
        for (const part of document.querySelectorAll("[data-live]")) {
          const now = fresh.getElementById(part.id);
          // What a person is using stays as it is.
          if (now && !part.contains(document.activeElement) && !now.isEqualNode(part)) {
            part.replaceWith(document.adoptNode(now));
          }
        }
        say("");
      } catch {
        say("The server does not answer. What is shown is as of its last answer; trying again…");
      }
    }
    setTimeout(refresh, 2000);
  };
  setTimeout(refresh, 2000);
}

// Files are uploaded one after another, and can be dropped; folders too.
const uploadForm = document.querySelector("form.upload");
if (uploadForm) {
  const status = document.getElementById("upload-progress");
  const failures = document.getElementById("upload-failures");
  uploadForm.querySelector(".with-script").hidden = false;
  const follow = (uploads) => {
    const url = new URL(location.href);
    const all = [uploads, url.searchParams.get("uploads")].filter(Boolean).join(",").split(",").slice(0, 50);
    url.searchParams.set("uploads", all.join(","));
    history.replaceState(null, "", url);
  };
  const sendFile = async (file, path) => {
    const data = new FormData();
    for (const field of uploadForm.querySelectorAll("input[type=hidden]")) data.append(field.name, field.value);
    data.append("file", file, path);
    const response = await fetch(uploadForm.action, { method: "POST", body: data, headers: { Accept: "text/html" } });
    if (response.ok) return follow(new URL(response.url).searchParams.get("uploads"));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    throw new Error(page.querySelector(".lead")?.textContent ?? response.statusText);
  };
  const send = async (files) => {
    let sent = 0;
    for (const [file, path] of files) {
      status.textContent = `Uploading ${sent + 1} of ${files.length}: ${path}`;
      try {
        await sendFile(file, path);
      } catch (error) {
        const entry = document.createElement("li");
        entry.textContent = `${path}: ${error.message}`;
        failures.append(entry);
      }
      sent += 1;
    }
    status.textContent = files.length ? `${files.length - failures.children.length} of ${files.length} files were accepted.` : "";
    uploadForm.reset();
  };
  // All files of a dropped folder: a reader returns them in portions.
  const filesOf = async (entry, folder) => {
    if (entry.isFile) return [[await new Promise((resolve, reject) => entry.file(resolve, reject)), folder + entry.name]];
    const reader = entry.createReader();
    const found = [];
    for (;;) {
      const portion = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!portion.length) return found;
      for (const child of portion) found.push(...await filesOf(child, `${folder}${entry.name}/`));
    }
  };
  uploadForm.addEventListener("submit", (event) => {
    event.preventDefault();
    failures.replaceChildren();
    send([...uploadForm.querySelector("input[type=file]").files].map((file) => [file, file.webkitRelativePath || file.name]));
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    failures.replaceChildren();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const dropped = entries.length ? (await Promise.all(entries.map((entry) => filesOf(entry, "")))).flat()
      : [...event.dataTransfer.files].map((file) => [file, file.name]);
    send(dropped);
  });
}
