// Processes of the product for the tests of its pages, with a folder of their own.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const { STEMMA_BIN } = process.env;
export const folder = mkdtempSync(join(tmpdir(), "stemma-web-"));
export const processes = new Set();
// Variables named STEMMA_… are settings of the product.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMA_")));

// A store is a folder in that of the test, or an address.
export function stemma(store, ...args) {
  return start(store, {}, args);
}

export function start(store, settings, args) {
  const place = store.includes("://") ? store : join(folder, store);
  const env = { ...environment, ...settings, XDG_CACHE_HOME: join(folder, "cache") };
  const child = spawn(STEMMA_BIN, ["--store", place, ...args], { cwd: folder, stdio: ["ignore", "pipe", "ignore"], env });
  processes.add(child);
  child.output = "";
  child.stdout.on("data", (data) => { child.output += data; });
  child.ended = new Promise((resolve) => child.on("close", (code) => { processes.delete(child); resolve(code); }));
  return child;
}

export function stopAll() {
  for (const child of processes) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}

export function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => { const { port } = server.address(); server.close(() => resolve(port)); });
  });
}

export async function until(what, condition, limitMs = 60_000) {
  const since = Date.now();
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() - since < limitMs, `${what} took more than ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export const json = (url) => fetch(url).then((response) => (response.ok ? response.json() : null)).catch(() => null);
export const listing = (server) => until("the first list", () => json(`${server}/v1/documents`));
