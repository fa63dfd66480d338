// The pages of operators on the product itself: files that are dropped become trees, a job says why it waits, a server that is gone is said to be.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";
import { check, end, lookAtAll, newPage, screenshot } from "./harness.mjs";
import { folder, freePort, json, listing, processes, stemma, stopAll, until } from "./product.mjs";

const HOSTILE = "<img src=x onerror=\"window.attacked = true\">\u202efdp";

const port = await freePort();
const served = `http://127.0.0.1:${port}`;
const serve = () => stemma("served", "serve", "--listen", `127.0.0.1:${port}`);
let server = serve();
await listing(served);

await check("files that are dropped become trees", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${served}/upload`);
  const transfer = await page.evaluateHandle((hostile) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["# One\n\nText of one.\n\n# Two\n\nText of two.\n"], "guide.md"));
    transfer.items.add(new File([`# ${hostile}\n\nText.\n`], `${hostile.replaceAll("/", "")}.md`));
    transfer.items.add(new File(["%PDF-1.4 not really"], "broken.pdf"));
    transfer.items.add(new File(["MZ"], "program.exe"));
    return transfer;
  }, HOSTILE);
  await page.dispatchEvent("form.upload", "drop", { dataTransfer: transfer });
  await page.waitForSelector("#uploads .badge[data-state=done]");
  await page.waitForSelector("#uploads .badge[data-state=failed]");
  await page.waitForFunction(() => document.querySelectorAll("#uploads tbody tr").length === 3);
  assert.match(await page.textContent("#upload-failures"), /program\.exe: Unsupported file type/);
  assert.match(page.url(), /uploads=/);
  await screenshot(page, "upload-dropped");
  // A browser says in the console that an answer is 422.
  assert.deepEqual(page.errors.filter((error) => !error.includes("422")), []);
  await page.click("#uploads a:text('guide.md')");
  assert.ok(await page.isVisible(".tree"));
  await page.context().close();
});

await check("files are uploaded without scripts", async () => {
  const page = await newPage({ context: { javaScriptEnabled: false } });
  await page.goto(`${served}/upload`);
  await page.setInputFiles("#files", [{ name: "plain.txt", mimeType: "text/plain", buffer: Buffer.from("Plain text.\n") }]);
  await page.click("form.upload button");
  assert.match(page.url(), /uploads=[0-9a-f]{32}\.j-/);
  await page.context().close();
});

await check("failed documents are counted before they are submitted again", async () => {
  const failed = await until("a failed job", async () => {
    const { items } = await json(`${served}/v1/jobs`);
    return items.find((job) => job.counts.failed === 1 && job.ended_ms);
  });
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${served}/jobs/${failed.job}`);
  await page.click("a:text('Retry…')");
  assert.match(await page.textContent("#retry"), /1 document of this job/);
  await screenshot(page, "job-retry");
  await page.click("#retry button");
  await page.waitForURL((url) => url.pathname.startsWith("/jobs/") && !url.pathname.endsWith(failed.job));
  await page.waitForSelector(".badge:text('finished')");
  await page.goto(`${served}/jobs/${failed.job}`);
  await page.click("section, table a:text('broken.pdf')");
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

await check("health shows the checks of the installation when they end", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${served}/health`);
  await page.waitForSelector(".checks li:has-text('document extraction') .badge[data-state=ok]");
  assert.match(await page.textContent("main"), /Made \d+ s ago/);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

const { items: jobs } = await json(`${served}/v1/jobs`);
const hostile = jobs.find((job) => job.label.includes("<img"));
const failed = jobs.find((job) => job.counts.failed);
await lookAtAll({
  jobs: "/jobs",
  "jobs finished": "/jobs?state=finished",
  "job failed": `/jobs/${failed.job}?document=broken.pdf&retry=pdf.no_pages`,
  "job hostile": `/jobs/${hostile.job}`,
  health: "/health",
  upload: "/upload",
}, served);

await check("a server that is gone is said to be, and comes back", async () => {
  const page = await newPage();
  await page.goto(`${served}/jobs`);
  server.kill("SIGKILL");
  await server.ended;
  await page.waitForSelector(".away");
  assert.match(await page.textContent(".away"), /does not answer/);
  server = serve();
  await listing(served);
  await page.waitForSelector(".away", { state: "detached" });
  await page.context().close();
});

await check("a job says why it waits five seconds after its worker was killed", async () => {
  mkdirSync(join(folder, "many"));
  for (let number = 0; number < 3_000; number += 1) {
    writeFileSync(join(folder, "many", `${number}.md`), `# Document ${number}\n\n${"Words of a text. ".repeat(2_000)}\n`);
  }
  const worker = stemma("watched", "ingest", "many");
  const other = await freePort();
  const watched = `http://127.0.0.1:${other}`;
  const job = await until("the job", async () => {
    const reader = [...processes].find((child) => child.spawnargs.includes("query"));
    if (!reader) stemma("watched", "query", "--listen", `127.0.0.1:${other}`);
    return (await json(`${watched}/v1/jobs`))?.items[0];
  });
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${watched}/jobs/${job.job}`);
  assert.match(await page.textContent(".why"), /stemma ingest/);
  worker.kill("SIGKILL");
  await page.waitForSelector(".why:has-text('no process is working on this store')", { timeout: 5_000 });
  await screenshot(page, "job-without-worker");
  assert.deepEqual(page.errors, []);
  await page.context().close();
  await lookAtAll({ "job interrupted": `/jobs/${job.job}` }, watched);
});

stopAll();
await end();
