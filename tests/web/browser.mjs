// Looks at every page in Chromium: no error in the console, no violation of WCAG A and AA that axe finds, no page that scrolls sideways,
// at three widths, light and dark; and walks through what people do.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { check, end, lookAtAll, newPage as emptyPage, screenshot } from "./harness.mjs";

const { STEMMA_PAGES, STEMMA_STORE } = process.env;
// A page that a renderer cannot draw is an error in the console, and shown as such. The small store has no files to draw.
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII=", "base64");

const server = spawn(STEMMA_PAGES, STEMMA_STORE ? [STEMMA_STORE] : [], { stdio: ["pipe", "pipe", "inherit"] });
const lines = createInterface({ input: server.stdout });
const { open, locked, key } = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);

async function prepare(page) {
  if (!STEMMA_STORE) await page.route("**/image?*", (route) => route.fulfill({ contentType: "image/png", body: PIXEL }));
}

const newPage = (options = {}) => emptyPage({ prepare, ...options });

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
  items: `${at(first)}?view=items`,
  tables: `${at(first)}?view=tables`,
  facts: `${at(first)}?view=facts`,
  about: `${at(first)}?view=about`,
  search: "/search?q=currency%20risk",
  missing: "/search?q=anvls",
  ask: "/ask",
  compare: `/compare?right=${encodeURIComponent(first.locator)}&left=${encodeURIComponent((published[1] ?? first).locator)}`,
  login: "/login",
  unknown: "/nowhere",
};
for (const document of documents.filter((document) => !["ACME_2022", "ACME_2021"].includes(document.locator)).slice(0, 8)) {
  screens[`document ${document.path.slice(0, 20)}`] = at(document);
}

await lookAtAll(screens, open, prepare);

await check("a question leads to claims, their quotes and the document", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${open}/ask`);
  await page.fill("#question", "How much was R&D spending?");
  await page.click("main form button[type=submit]");
  await page.waitForSelector(".claim");
  assert.match(page.url(), /\/answers\/a-[0-9a-f]{16}/);
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
