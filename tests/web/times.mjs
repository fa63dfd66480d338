// Times pages in a browser: times.mjs BASE < {"name": "path", ...}. Each page is loaded in a browser without a cache at two widths. Prints
// a JSON line per page: milliseconds until the first contentful paint and until the load event, the slower of both, and defects.
import { readFileSync } from "node:fs";
import { browser, newPage } from "./harness.mjs";

const [base] = process.argv.slice(2);
const screens = Object.entries(JSON.parse(readFileSync(0, "utf8")));

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
    return { paint: paints[0].startTime, load: load.loadEventEnd };
  });
  const isBroken = await page.evaluate(() => window.attacked === true || document.documentElement.scrollWidth > innerWidth);
  // A comparison that is too large answers 422.
  const defects = page.errors.filter((error) => !error.includes("422"));
  if (isBroken) defects.push(`at ${width} pixels a script ran, or it scrolls sideways`);
  await page.context().close();
  return { ...times, defects };
}

await time(screens[0][1], 1280);
for (const [screen, path] of screens) {
  const [narrow, wide] = [await time(path, 360), await time(path, 1280)];
  const [paint, load] = ["paint", "load"].map((kind) => Math.max(narrow[kind], wide[kind]));
  console.log(JSON.stringify({ screen, paint, load, defects: [...narrow.defects, ...wide.defects] }));
}
await browser.close();
