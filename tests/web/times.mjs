// Times pages in a browser: times.mjs BASE MARK_PAINT_MS MARK_LOAD_MS < {"name": "path", ...}. Each page is loaded in a browser
// without a cache at two widths. Prints milliseconds until the first contentful paint and until the load event, the slower of both.
import { readFileSync } from "node:fs";
import { browser, newPage } from "./harness.mjs";

const [base, markPaint, markLoad] = process.argv.slice(2);
const screens = Object.entries(JSON.parse(readFileSync(0, "utf8")));
const missed = [];

async function time(path, width) {
  const page = await newPage({ context: { viewport: { width, height: 800 } } });
  await page.goto(base + path, { waitUntil: "load" });
  const times = await page.evaluate(async () => {
    const [load] = performance.getEntriesByType("navigation");
    while (load.loadEventEnd === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    // A page that has loaded may still wait for its first frame.
    let paints = [];
    while (paints.length === 0) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      paints = performance.getEntriesByName("first-contentful-paint");
    }
    return { firstByte: load.responseStart, paint: paints[0].startTime, load: load.loadEventEnd };
  });
  const isBroken = await page.evaluate(() => window.attacked === true || document.documentElement.scrollWidth > innerWidth);
  // A comparison that is too large answers 422.
  const errors = page.errors.filter((error) => !error.includes("422"));
  if (isBroken || errors.length > 0) missed.push(`${path} at ${width}: a script ran, it scrolls sideways, or ${errors}`);
  await page.context().close();
  return times;
}

console.log(`${"screen".padEnd(28)} first byte  first paint  load (ms in ${browser.version()})`);
await time(screens[0][1], 1280);
for (const [name, path] of screens) {
  const [narrow, wide] = [await time(path, 360), await time(path, 1280)];
  const [firstByte, paint, load] = ["firstByte", "paint", "load"].map((kind) => Math.max(narrow[kind], wide[kind]));
  console.log(`${name.padEnd(28)} ${firstByte.toFixed(0).padStart(10)} ${paint.toFixed(0).padStart(12)} ${load.toFixed(0).padStart(5)}`);
  if (paint > markPaint || load > markLoad) missed.push(`${name}: ${paint.toFixed(0)} ms, ${load.toFixed(0)} ms`);
}
console.log(`above ${markPaint} ms to the first paint or ${markLoad} ms to load: ${missed.join("; ") || "none"}`);
await browser.close();
