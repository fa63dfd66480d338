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

// No error in the console, no violation of WCAG A and AA that axe finds, nothing that scrolls sideways, no script of a document.
async function look(name, url, width, scheme, prepare) {
  const page = await newPage({ axe: true, prepare, context: { viewport: { width, height: 900 }, colorScheme: scheme } });
  const response = await page.goto(url, { waitUntil: "load" });
  await screenshot(page, `${name}-${width}-${scheme}`);
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
