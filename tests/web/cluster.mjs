// Control and live updates on a cluster: processes that share RabbitMQ, Redis and S3, which the environment names as for `tests/run`.
import { createHash, createHmac } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";
import { check, end, lookAtAll, newPage, screenshot } from "./harness.mjs";
import { folder, freePort, listing, start, stopAll, until } from "./product.mjs";

const { STEMMA_TEST_RABBITMQ, STEMMA_TEST_REDIS, STEMMA_TEST_S3 } = process.env;
const [endpoint, accessKey, secretKey] = STEMMA_TEST_S3.split(" ");
const REGION = "us-east-1";
const BUCKET = "web";
const PREFIX = `web-${process.pid}`;
const DOCUMENTS = 30;
const settings = {
  STEMMA_BROKER__URL: STEMMA_TEST_RABBITMQ,
  STEMMA_BROKER__PREFIX: PREFIX,
  STEMMA_REDIS__URL: STEMMA_TEST_REDIS,
  STEMMA_REDIS__PREFIX: PREFIX,
  STEMMA_S3__ENDPOINT: endpoint,
  STEMMA_S3__ACCESS_KEY: accessKey,
  STEMMA_S3__SECRET_KEY: secretKey,
  STEMMA_S3__PATH_STYLE: "true",
  STEMMA_S3__REGION: REGION,
};

// A signed PUT, as S3 wants it (AWS Signature Version 4).
async function put(path, body = "") {
  const url = new URL(path, endpoint);
  const at = new Date().toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
  const digest = (text) => createHash("sha256").update(text).digest("hex");
  const headers = { host: url.host, "x-amz-content-sha256": digest(body), "x-amz-date": at };
  const names = Object.keys(headers).join(";");
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("");
  const request = ["PUT", url.pathname, "", lines, names, digest(body)].join("\n");
  const scope = [at.slice(0, 8), REGION, "s3", "aws4_request"];
  const key = scope.reduce((key, part) => createHmac("sha256", key).update(part).digest(), `AWS4${secretKey}`);
  const signature = createHmac("sha256", key).update(["AWS4-HMAC-SHA256", at, scope.join("/"), digest(request)].join("\n")).digest("hex");
  delete headers.host;
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKey}/${scope.join("/")}, SignedHeaders=${names}, Signature=${signature}`;
  const response = await fetch(url, { method: "PUT", body: body || undefined, headers: { ...headers, authorization } });
  // The bucket may be there from an earlier run.
  assert.ok(response.ok || response.status === 409, `${response.status}: ${await response.text()}`);
}

const store = `s3://${BUCKET}/${PREFIX}`;
const run = (...args) => start(store, settings, args);
const port = await freePort();
const served = `http://127.0.0.1:${port}`;

async function submit(name) {
  const submission = run("--json", "submit", name);
  assert.equal(await submission.ended, 0);
  return JSON.parse(submission.output).job;
}

await put(`/${BUCKET}`);
mkdirSync(join(folder, "filings"));
for (let number = 0; number < DOCUMENTS; number += 1) {
  writeFileSync(join(folder, "filings", `${number}.md`), `# Document ${number}\n\nSome text.\n\n# Part\n\nMore of it.\n`);
}
writeFileSync(join(folder, "filings", "broken.pdf"), "%PDF-1.4 not really");
mkdirSync(join(folder, "more"));
writeFileSync(join(folder, "more", "one.md"), "# One\n\nText.\n");
for (const service of ["coordinator", "query"]) {
  run(service, "--listen", `127.0.0.1:${service === "query" ? port : await freePort()}`);
}
await listing(served);
const job = await submit("filings");
const work = [];

await check("a job without workers says so, and health shows the lane that waits", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${served}/jobs/${job}`);
  await page.waitForSelector(".facts .badge:text('running')");
  await page.waitForSelector(".why:has-text('worker')");
  await page.goto(`${served}/health`);
  await page.waitForSelector("tr:has-text('cpu') .badge:text('none')");
  await page.waitForSelector("tr:has-text('coordinator')");
  await screenshot(page, "cluster-health");
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

await check("a job is paused, given priority and resumed, and its page follows its work", async () => {
  const page = await newPage({ context: { viewport: { width: 1280, height: 900 } } });
  await page.goto(`${served}/jobs/${job}`);
  await page.click(".controls button:text('Pause')");
  await page.waitForSelector(".facts .badge:text('paused')");
  await page.click(".controls button:text('Open its documents first')");
  await page.waitForSelector(".facts:has-text('priority interactive')");
  await page.click(".controls button:text('Resume')");
  await page.waitForSelector(".facts .badge:text('running')");
  // From here on nothing loads the page again but its script.
  await page.evaluate(() => { window.stays = true; });
  for (const service of ["worker", "assembler"]) work.push(run(service, "--listen", `127.0.0.1:${await freePort()}`));
  await page.waitForSelector(".facts .badge:text('finished')");
  assert.match(await page.textContent(".facts"), new RegExp(`${DOCUMENTS + 1} of ${DOCUMENTS + 1}`));
  assert.equal(await page.evaluate(() => window.stays), true);
  await screenshot(page, "cluster-job-finished");
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

await check("failures name their cause, and how to submit them again", async () => {
  const page = await newPage();
  await page.goto(`${served}/jobs/${job}`);
  await page.click("a:text('Retry…')");
  assert.match(await page.textContent("#retry"), /1 document of this job/);
  // A query server submits nothing: it names the command.
  const [program, ...words] = (await page.textContent("#retry p code")).split(" ");
  assert.equal(program, "stemma");
  assert.equal(await run(...words, "--yes").ended, 0);
  await page.goto(`${served}/jobs`);
  await page.waitForFunction(() => document.querySelectorAll("#jobs tbody tr").length === 2);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

await check("a job is cancelled while nothing works on it", async () => {
  for (const child of work) { child.kill("SIGKILL"); await child.ended; }
  const other = await submit("more");
  const page = await newPage();
  await page.goto(`${served}/jobs/${other}`);
  await page.click(".controls summary");
  await page.click("button:text('Cancel this job')");
  await page.waitForSelector(".facts .badge:text('cancelled')");
  await page.waitForSelector(".controls", { state: "detached" });
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

await check("a dead letter is shown and replayed", async () => {
  const id = "0123456789abcdef";
  const letter = { id, at_ms: Date.now(), queue: "cpu", deliveries: 5, run: null, key: null, stage: "outline", attempts: 2, reason: "the worker was killed", begins: "{}" };
  await put(`/${BUCKET}/${PREFIX}/dead/${id}.json`, JSON.stringify(letter));
  const page = await newPage();
  await page.goto(`${served}/health`);
  await page.click(`.letter summary:has-text('${id}')`);
  await page.click(".letter button");
  await page.waitForSelector("text=every message was handled");
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

await lookAtAll({ "cluster health": "/health" }, served);
stopAll();
await end();
