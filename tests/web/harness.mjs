// What the tests of the pages share: a browser that collects errors, and a look at a page at three widths, light and dark.
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const { STEMMA_CHROMIUM, STEMMA_SCREENSHOTS } = process.env;
// A telephone, a laptop, a large screen and one of 4K.
const VIEWS = [[360, "light"], [360, "dark"], [1280, "light"], [1280, "dark"], [2560, "light"], [2560, "dark"], [3840, "light"]];
// Of one page, on a machine that does much else.
const LIMIT_MS = Number(process.env.STEMMA_PAGE_LIMIT_MS ?? 60_000);

export const browser = await chromium.launch({ executablePath: STEMMA_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
let passed = 0;
let failed = 0;

export async function check(name, test) {
  try {
    await test();
    passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}

export async function newPage(options = {}) {
  const context = await browser.newContext({ bypassCSP: options.axe ?? false, ...options.context });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  page.errors = [];
  page.on("console", (message) => { if (message.type() === "error") page.errors.push(message.text()); });
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("dialog", (dialog) => { page.errors.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  await options.prepare?.(page);
  return page;
}

export async function screenshot(page, name) {
  if (!STEMMA_SCREENSHOTS) return;
  mkdirSync(STEMMA_SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: `${STEMMA_SCREENSHOTS}/${name.replace(/[^a-z0-9]+/gi, "-")}.png` });
}

// Texts that overlap: boxes of lines of different elements that share more than what letters reach over their line.
function overlappingTexts() {
  const SLACK = 4;
  const clips = new Map();
  // What of an element its ancestors do not cut off.
  const visiblePart = (element) => {
    if (!element) return { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
    if (!clips.has(element)) {
      const above = visiblePart(element.parentElement);
      const own = getComputedStyle(element).overflow === "visible" ? above : element.getBoundingClientRect();
      clips.set(element, intersection(above, own));
    }
    return clips.get(element);
  };
  const intersection = (one, other) => ({
    left: Math.max(one.left, other.left), top: Math.max(one.top, other.top),
    right: Math.min(one.right, other.right), bottom: Math.min(one.bottom, other.bottom),
  });
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const isSeen = walker.currentNode.data.trim() && element.checkVisibility() && !element.closest("svg, select, .hidden, .skip");
    if (!isSeen) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const rect of range.getClientRects()) {
      const box = intersection(rect, visiblePart(element));
      if (box.right - box.left > SLACK && box.bottom - box.top > SLACK) boxes.push({ ...box, element });
    }
  }
  boxes.sort((one, other) => one.top - other.top);
  const found = [];
  boxes.forEach((box, at) => {
    for (let next = at + 1; next < boxes.length && boxes[next].top < box.bottom - SLACK; next += 1) {
      const other = boxes[next];
      const shared = intersection(box, other);
      if (other.element !== box.element && shared.right - shared.left > SLACK && shared.bottom - shared.top > SLACK) {
        found.push(`${box.element.textContent.trim().slice(0, 40)} | ${other.element.textContent.trim().slice(0, 40)}`);
      }
    }
  });
  return found;
}

// No error in the console, nothing that scrolls sideways, no texts on one another, no script of a document.
async function inspect(page, response) {
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(sideways <= 0, `scrolls ${sideways} px sideways`);
  assert.deepEqual(await page.evaluate(overlappingTexts), []);
  const attacked = await page.evaluate(() => window.attacked);
  assert.equal(attacked, undefined, "a script of a document ran");
  // A browser says in the console that an answer is 404.
  const errors = page.errors.filter((error) => response.status() < 400 || !error.includes("Failed to load resource"));
  assert.deepEqual(errors, []);
}

// As `inspect`, and no violation of WCAG A and AA that axe finds.
async function look(name, url, width, scheme, prepare) {
  const page = await newPage({ axe: true, prepare, context: { viewport: { width, height: 900 }, colorScheme: scheme } });
  const response = await page.goto(url, { waitUntil: "load" });
  await screenshot(page, `${name}-${width}-${scheme}`);
  await page.evaluate(axe);
  const results = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  const found = results.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 2).map((node) => node.target).join(" ")}`);
  assert.deepEqual(found, []);
  await inspect(page, response);
  await page.context().close();
}

// Many pages on a telephone, with what hurts readers there, and the time until each is loaded.
export async function passThrough(screens, server, limitMs) {
  const page = await newPage({ context: { viewport: { width: 360, height: 900 } } });
  for (const [name, path] of Object.entries(screens)) {
    await check(`${name} on a telephone`, async () => {
      page.errors.length = 0;
      const began = Date.now();
      const response = await page.goto(server + path, { waitUntil: "load" });
      const took = Date.now() - began;
      await screenshot(page, `telephone-${name}`);
      await inspect(page, response);
      assert.ok(took <= limitMs, `loaded after ${took} ms`);
    });
  }
  await page.context().close();
}

export async function lookAtAll(screens, server, prepare) {
  for (const [name, path] of Object.entries(screens)) {
    for (const [width, scheme] of VIEWS) {
      await check(`${name} at ${width} px, ${scheme}`, () => look(name, server + path, width, scheme, prepare));
    }
  }
}

export async function end() {
  await browser.close();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}
