// Looks at every page in Chromium: no error in the console, no violation of WCAG A and AA that axe finds, no page that scrolls sideways,
// at three widths, light and dark; and walks through what people do.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { check, end, lookAtAll, newPage, passThrough, screenshot } from "./harness.mjs";

const { STEMMA_PAGES, STEMMA_STORE } = process.env;
// Until a page of a hostile document is loaded, from a server that is not optimized, on a machine that does much else.
const HOSTILE_LIMIT_MS = Number(process.env.STEMMA_HOSTILE_LIMIT_MS ?? 30_000);

const server = spawn(STEMMA_PAGES, STEMMA_STORE ? [STEMMA_STORE] : [], { stdio: ["pipe", "pipe", "inherit"] });
const lines = createInterface({ input: server.stdout });
const { open, locked, key } = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);

// The index and the catalog are loaded in the background.
async function ready() {
  for (const path of ["/v1/documents", "/v1/search?q=anvils"]) {
    while ((await fetch(open + path)).status === 503) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

await ready();
const documents = (await (await fetch(`${open}/v1/documents?limit=100`)).json()).items;
const published = documents.filter((document) => document.sections);
const first = published.find((document) => document.pages) ?? published[0];
const at = (document) => `/documents/${encodeURIComponent(document.doc_id)}`;
const screens = {
  archive: "/",
  filtered: "/?form=10-K",
  document: at(first),
  section: `${at(first)}?at=0001`,
  reading: `${at(first)}?page=2&reading=true`,
  items: `${at(first)}?view=items`,
  tables: `${at(first)}?view=tables`,
  facts: `${at(first)}?view=facts`,
  about: `${at(first)}?view=about`,
  search: "/search?q=currency%20risk",
  missing: "/search?q=anvls",
  ask: "/ask",
  conversations: "/conversations",
  compare: `/compare?right=${encodeURIComponent(first.locator)}&left=${encodeURIComponent((published[1] ?? first).locator)}`,
  jobs: "/jobs",
  health: "/health",
  login: "/login",
  unknown: "/nowhere",
};
for (const document of documents.filter((document) => !["ACME_2022", "ACME_2021"].includes(document.locator)).slice(0, 9)) {
  screens[`document ${document.path.slice(0, 20)}`] = at(document);
}

await lookAtAll(screens, open);

// What a document can say in its name, its titles and their number, on every screen that shows it; and the same in an address.
const markup = "<img src=x onerror=\"window.attacked = true\">\u202e\u001b[31m";
const hostile = documents.filter((document) => ["long.pdf", "deep.pdf"].includes(document.path) || document.path.startsWith("<"));
const views = hostile.flatMap((document) => ["at=0000", "view=items", "view=tables", "view=facts", "view=about"].map((view) => [
  `${document.path.slice(0, 8)} ${view}`, `${at(document)}?${view}`,
]));
const pairs = hostile.map((document) => [
  `comparison with ${document.path.slice(0, 8)}`,
  `/compare?left=${encodeURIComponent(first.locator)}&right=${encodeURIComponent(document.locator)}`,
]);
const inAddresses = Object.entries({
  archive: "/?q=", facet: "/?company=", search: "/search?q=", scope: "/search?q=section&scope=", ask: "/ask?q=", compare: "/compare?right=",
  jobs: "/jobs?state=", job: "/jobs/", document: "/documents/", answer: "/answers/",
  conversation: "/conversations/",
}).map(([name, path]) => [`${name} for markup`, path + encodeURIComponent(markup)]);
assert.equal(hostile.length, STEMMA_STORE ? hostile.length : 3);
await passThrough(Object.fromEntries([...views, ...pairs, ["search for markup in titles", "/search?q=script"], ...inAddresses]), open, HOSTILE_LIMIT_MS);

await check("a question leads to claims, their quotes and the document", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${open}/ask`);
  await page.fill("#question", "How much was R&D spending?");
  await page.click("main form button[type=submit]");
  await page.waitForSelector(".claim");
  assert.match(page.url(), /\/conversations\/c-[0-9a-f]{28}/);
  assert.match(await page.getAttribute("text=Address of this answer", "href"), /^\/answers\/a-[0-9a-f]{16}/);
  await page.hover("a.cite");
  assert.ok(await page.isVisible(".citation.shown blockquote"));
  await screenshot(page, "answer");
  assert.deepEqual(page.errors, []);
  const answer = page.url();
  await page.click(".citation.shown h3 a");
  await page.waitForURL("**/documents/**");
  await page.goBack();
  assert.equal(page.url().split("#")[0], answer.split("#")[0]);
  await page.goForward();
  assert.match(page.url(), /\/documents\//);
  await page.context().close();
});

// The small store has one filing with its file.
const drawn = documents.find((document) => document.path.endsWith("DRAWN_2022.pdf"));
const near = (one, other, limit, what) => assert.ok(Math.abs(one - other) <= limit, `${what}: ${one} and ${other}`);

// Boxes of elements in fractions of the image of a page.
async function boxes(sheet, selector) {
  return sheet.evaluate((node, selector) => {
    const page = node.querySelector("img").getBoundingClientRect();
    return [...node.querySelectorAll(selector)].map((element) => {
      const box = element.getBoundingClientRect();
      return {
        text: element.textContent.trim(), x: (box.x - page.x) / page.width, y: (box.y - page.y) / page.height,
        w: box.width / page.width, h: box.height / page.height,
      };
    });
  }, selector);
}

// The darkest pixel of each box, and the darkest outside of all of them: 0 is black.
async function ink(sheet, found) {
  return sheet.evaluate((node, found) => {
    const image = node.querySelector("img");
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const inside = found.map(() => 255);
    let outside = 255;
    for (let y = 0; y < canvas.height; y += 1) {
      for (let x = 0; x < canvas.width; x += 1) {
        const value = data[4 * (y * canvas.width + x)];
        if (value > 128) continue;
        // Letters may reach over their box by two pixels.
        const [slackX, slackY] = [2 / canvas.width, 2 / canvas.height];
        const [atX, atY] = [x / canvas.width, y / canvas.height];
        const hit = found.findIndex((box) => atX >= box.x - slackX && atX <= box.x + box.w + slackX && atY >= box.y - slackY && atY <= box.y + box.h + slackY);
        if (hit < 0) outside = Math.min(outside, value);
        else inside[hit] = Math.min(inside[hit], value);
      }
    }
    return { inside, outside };
  }, found);
}

const wordsOf = async (document, number, query = "") => {
  const page = await (await fetch(`${open}/v1/documents/${document.doc_id}/pages/${number}/words${query}`)).json();
  return { ...page, words: page.lines.flatMap((line) => line.words) };
};

if (drawn) {
  await check("words are over the image where they are drawn, and can be selected and copied", async () => {
    const page = await newPage({ context: { viewport: { width: 1600, height: 1000 } } });
    await page.goto(`${open}${at(drawn)}?page=2&at=0001`, { waitUntil: "networkidle" });
    const sheet = await page.$(".sheet");
    assert.equal(await sheet.evaluate((node) => node.querySelector("img").naturalWidth), 1000);
    const { words, extent } = await wordsOf(drawn, 2, "?section=0001");
    const shown = await boxes(sheet, "tspan");
    assert.deepEqual(shown.map((word) => word.text), words.map((word) => word.text));
    for (const [index, word] of words.entries()) {
      near(shown[index].x, word.x, 0.005, `left of ${word.text}`);
      near(shown[index].w, word.w, 0.01, `width of ${word.text}`);
      near(shown[index].y + shown[index].h / 2, word.y + word.h / 2, 0.01, `middle of ${word.text}`);
    }
    const { inside, outside } = await ink(sheet, words);
    assert.ok(inside.every((value) => value < 100), `a word without ink: ${inside}`);
    assert.ok(outside > 100, "there is ink outside of all words");
    const marked = await boxes(sheet, "rect.extent");
    assert.equal(marked.length, extent.length);
    for (const side of ["x", "y", "w", "h"]) near(marked[0][side], extent[0][side], 0.003, `${side} of the section`);
    const copied = await page.evaluate(() => {
      const line = [...document.querySelectorAll(".sheet text")].find((text) => text.textContent.includes("anvils"));
      getSelection().selectAllChildren(line);
      return getSelection().toString();
    });
    assert.equal(copied.replace(/\s+/g, " ").trim(), "We make anvils and rockets.");
    await screenshot(page, "page-image");
    assert.deepEqual(page.errors, []);
    await page.context().close();
  });

  await check("a page shows what it was read as, without a script", async () => {
    const page = await newPage({ context: { viewport: { width: 1600, height: 1000 }, javaScriptEnabled: false } });
    await page.goto(`${open}${at(drawn)}?page=2&at=0001`);
    assert.equal(await page.$(".legend"), null);
    await page.click("text=Show reading");
    await page.waitForURL("**reading=true**");
    const { lines, reading } = await wordsOf(drawn, 2, "?reading=true");
    assert.equal(reading.lines.length, lines.length);
    const kinds = (kind) => reading.lines.filter((line) => line.kind === kind).length;
    assert.match(await page.textContent(".legend"), new RegExp(`Label ${kinds("label")}Prose ${kinds("prose")}Heading`));
    const shown = await boxes(await page.$(".sheet"), "rect.line");
    assert.equal(shown.length, lines.length);
    for (const [index, line] of lines.entries()) {
      for (const side of ["x", "y", "w", "h"]) near(shown[index][side], line[side], 0.003, `${side} of line ${index + 1}`);
    }
    const titles = await page.$$eval(".sheet rect.pointed > title", (found) => found.map((title) => title.textContent));
    assert.ok(titles.includes("amount 1577 × 1000000"), titles.join(", "));
    await screenshot(page, "page-reading");
    await page.click("text=Next");
    assert.match(page.url(), /page=3&reading=true/);
    await page.click("text=Hide reading");
    await page.waitForURL((url) => !url.search.includes("reading"));
    await page.context().close();
  });

  await check("the rectangle of a citation covers the quoted words", async () => {
    const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
    await page.goto(`${open}/ask?scope=${encodeURIComponent(drawn.locator)}`);
    await page.fill("#question", "How much was R&D spending?");
    await page.click("main form button[type=submit]");
    await page.waitForSelector(".claim");
    await page.hover("a.cite");
    const proof = await page.$(".citation.shown");
    const sheet = await proof.$(".sheet");
    await sheet.evaluate((node) => node.querySelector("img").decode());
    const number = Number(await sheet.evaluate((node) => node.querySelector("img").dataset.page));
    const quote = await proof.evaluate((node) => node.querySelector("blockquote").textContent);
    const { words } = await wordsOf(drawn, number);
    const quoted = quote.trim().split(/\s+/);
    const start = words.findIndex((_, index) => quoted.every((text, offset) => words[index + offset]?.text === text));
    assert.ok(start >= 0, `${quote} is not on page ${number}`);
    const rectangles = await boxes(sheet, "rect.quote");
    const covered = words.slice(start, start + quoted.length);
    for (const word of covered) {
      const inside = rectangles.some((box) => box.x <= word.x + 0.003 && box.y <= word.y + 0.003
        && box.x + box.w >= word.x + word.w - 0.003 && box.y + box.h >= word.y + word.h - 0.003);
      assert.ok(inside, `${word.text} is outside of the rectangle`);
    }
    const before = words[start - 1];
    assert.ok(!before || !rectangles.some((box) => before.y + before.h / 2 > box.y && before.y + before.h / 2 < box.y + box.h && before.x + before.w / 2 > box.x), "the rectangle covers more than the quote");
    const { inside } = await ink(sheet, covered);
    assert.ok(inside.every((value) => value < 100), `nothing is drawn under the rectangle: ${inside}`);
    await screenshot(page, "citation");
    assert.deepEqual(page.errors, []);
    await page.context().close();
  });

  await check("a page that text recognition read says so and marks words in doubt", async () => {
    const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
    const scan = documents.find((document) => document.path === "SCANNED.pdf");
    await page.goto(`${open}${at(scan)}?page=2`, { waitUntil: "networkidle" });
    assert.match(await page.textContent(".recognition"), /It is \d+\s% sure of its words; in doubt, and marked: million\./);
    const { words } = await wordsOf(scan, 2);
    const doubtful = words.filter((word) => word.in_doubt);
    const marks = await boxes(await page.$(".sheet"), "rect.doubtful");
    assert.equal(doubtful.length, 1);
    assert.equal(marks.length, 1);
    for (const side of ["x", "y", "w", "h"]) near(marks[0][side], doubtful[0][side], 0.01, `${side} of the word in doubt`);
    await page.click(".text-of-page summary");
    assert.equal(await page.textContent(".page-text .doubtful"), doubtful[0].text);
    await screenshot(page, "page-recognized");
    assert.deepEqual(page.errors, []);
    await page.context().close();
  });

  await check("a page that cannot be drawn shows its words", async () => {
    const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
    const missing = documents.find((document) => document.locator === "ACME_2022");
    await page.goto(`${open}${at(missing)}?page=2`, { waitUntil: "networkidle" });
    assert.ok(await page.evaluate(() => document.querySelector(".sheet img").naturalWidth > 0));
    assert.ok(await page.isVisible(".sheet"));
    assert.deepEqual(page.errors, []);
    await page.context().close();
  });
}

await check("a key is asked for, kept, and given back", async () => {
  const page = await newPage();
  await page.goto(`${locked}/?form=10-K`);
  assert.match(await page.textContent("h1"), /asks for a key/);
  await page.click("main a.button");
  await page.fill("#key", key);
  await page.click("main form button[type=submit]");
  await page.waitForURL("**/?form=10-K");
  assert.match(await page.textContent("h1"), /Archive/);
  await page.click("header form button");
  assert.match(await page.textContent("h1"), /asks for a key/);
  await page.context().close();
});

await check("pages can be read and used without scripts", async () => {
  const page = await newPage({ context: { javaScriptEnabled: false } });
  await page.goto(`${open}/search?q=anvils`);
  await page.click(".hit h3 a");
  assert.match(page.url(), /\/documents\//);
  assert.ok(await page.isVisible(".passage"));
  await page.context().close();
});

await check("the keyboard reaches the content first", async () => {
  const page = await newPage();
  await page.goto(`${open}/`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  await page.context().close();
});

server.stdin.end();
await end();
