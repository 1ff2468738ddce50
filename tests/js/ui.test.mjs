import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { draftOf, lengthOf, meaning, relative } from "../../static/js/ui.js";

const cases = JSON.parse(readFileSync(new URL("./times.json", import.meta.url), "utf8"));
const words = {
  now: "just now", joint: " ", second: "{n} s", minute: "{n} min", hour: "{n} h", day: "{n} d",
  "second-ago": "{n} s ago", "minute-ago": "{n} min ago", "hour-ago": "{n} h ago", "day-ago": "{n} d ago",
  "second-ahead": "in {n} s", "minute-ahead": "in {n} min", "hour-ahead": "in {n} h", "day-ahead": "in {n} d",
};

test("an age is said in one unit, as the server says it", () => {
  for (const [seconds, text] of cases.ages) assert.equal(relative(seconds, words), text, `${seconds}`);
});

test("a length is said in at most two units, as the server says it", () => {
  for (const [seconds, text] of cases.lengths) assert.equal(lengthOf(seconds, words), text, `${seconds}`);
});

test("keys: slash searches, a question mark helps, g goes on to a place", () => {
  assert.equal(meaning("/", ""), "search");
  assert.equal(meaning("?", "x"), "help");
  assert.equal(meaning("e", "g"), "experiments");
  assert.equal(meaning("/", "g"), null);
  assert.equal(meaning("e", ""), null);
});

test("a draft keeps what was typed and leaves out secrets and one-time values", () => {
  const entries = [["csrfmiddlewaretoken", "s"], ["key", "k"], ["name", "Mein Versuch"], ["flavour", "custom"], ["file", new Blob([])]];
  assert.deepEqual(draftOf(entries), { name: "Mein Versuch", flavour: "custom" });
});
