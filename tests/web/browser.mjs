// Looks at every page in Chromium: no error in the console, no violation of WCAG A and AA that axe finds, no page that scrolls sideways,
// at three widths, light and dark; and walks through what people do.
import { spawn } from "node:child_process";
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const { STEMMA_CHROMIUM, STEMMA_PAGES, STEMMA_SCREENSHOTS, STEMMA_STORE } = process.env;
const WIDTHS = [360, 1280, 2560];
const SCHEMES = ["light", "dark"];
// Of one page, on a machine that does much else.
const LIMIT_MS = Number(process.env.STEMMA_PAGE_LIMIT_MS ?? 60_000);
// A page that a renderer cannot draw is an error in the console, and shown as such. The small store has no files to draw.
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII=", "base64");

const server = spawn(STEMMA_PAGES, STEMMA_STORE ? [STEMMA_STORE] : [], { stdio: ["pipe", "pipe", "inherit"] });
const lines = createInterface({ input: server.stdout });
const { open, locked, key } = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);
const browser = await chromium.launch({ executablePath: STEMMA_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
let passed = 0;
let failed = 0;

async function check(name, test) {
  try {
    await test();
    passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}

async function newPage(options = {}) {
  const context = await browser.newContext({ bypassCSP: options.axe ?? false, ...options.context });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  page.errors = [];
  page.on("console", (message) => { if (message.type() === "error") page.errors.push(message.text()); });
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("dialog", (dialog) => { page.errors.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  if (!STEMMA_STORE) await page.route("**/image?*", (route) => route.fulfill({ contentType: "image/png", body: PIXEL }));
  return page;
}

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

async function look(name, path, width, scheme) {
  const page = await newPage({ axe: true, context: { viewport: { width, height: 900 }, colorScheme: scheme } });
  const response = await page.goto(open + path, { waitUntil: "load" });
  if (STEMMA_SCREENSHOTS) {
    mkdirSync(STEMMA_SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: `${STEMMA_SCREENSHOTS}/${name.replace(/[^a-z0-9]+/gi, "-")}-${width}-${scheme}.png` });
  }
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(sideways <= 0, `scrolls ${sideways} px sideways`);
  await page.evaluate(axe);
  const results = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  const found = results.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 2).map((node) => node.target).join(" ")}`);
  assert.deepEqual(found, []);
  const attacked = await page.evaluate(() => window.attacked);
  assert.equal(attacked, undefined, "a script of a document ran");
  // A browser says in the console that an answer is 404.
  const errors = page.errors.filter((error) => response.status() < 400 || !error.includes("Failed to load resource"));
  assert.deepEqual(errors, []);
  await page.context().close();
}

for (const [name, path] of Object.entries(screens)) {
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) await check(`${name} at ${width} px, ${scheme}`, () => look(name, path, width, scheme));
  }
}

await check("a question leads to claims, their quotes and the document", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${open}/ask`);
  await page.fill("#question", "How much was R&D spending?");
  await page.click("main form button[type=submit]");
  await page.waitForSelector(".claim");
  assert.match(page.url(), /\/answers\/a-[0-9a-f]{16}/);
  await page.hover("a.cite");
  assert.ok(await page.isVisible(".citation.shown blockquote"));
  if (STEMMA_SCREENSHOTS) await page.screenshot({ path: `${STEMMA_SCREENSHOTS}/answer.png` });
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

await browser.close();
server.stdin.end();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
