import assert from "node:assert/strict";
import { test } from "node:test";
import { Columns } from "../../static/js/chart.js";

test("a snapshot replaces, a patch appends only what is newer", () => {
  const columns = new Columns(600);
  columns.reset({ at: [1, 2, 3], used: [10, 20, 30] });
  columns.append({ at: [3, 4], used: [99, 40] });
  assert.deepEqual(columns.aligned(["used"], 3), [[1, 2, 3, 4], [10, 20, 30, 40]]);
});

test("snapshot and patches give what a fresh snapshot gives", () => {
  const at = Array.from({ length: 50 }, (_, i) => 1000 + i);
  const used = at.map((t) => (t % 7 === 0 ? null : t));
  const fresh = new Columns(30);
  fresh.reset({ at, used });
  const patched = new Columns(30);
  patched.reset({ at: at.slice(0, 20), used: used.slice(0, 20) });
  for (let i = 20; i < 50; i += 3) patched.append({ at: at.slice(i, i + 3), used: used.slice(i, i + 3) });
  assert.deepEqual(patched.aligned(["used"], 3), fresh.aligned(["used"], 3));
});

test("what is older than the span is let go", () => {
  const columns = new Columns(10);
  columns.reset({ at: [0, 5, 20], used: [1, 2, 3] });
  columns.append({ at: [28], used: [4] });
  assert.deepEqual(columns.aligned(["used"], 100), [[20, 28], [3, 4]]);
});

test("a gap is a hole and a missing figure is no zero", () => {
  const columns = new Columns(600);
  columns.reset({ at: [1, 2, 60], used: [10, null, 30] });
  assert.deepEqual(columns.aligned(["used", "unknown"], 3), [[1, 2, 3, 60], [10, null, null, 30], [null, null, null, null]]);
});

test("a column that appears later has no data before", () => {
  const columns = new Columns(600);
  columns.reset({ at: [1], used: [10] });
  columns.append({ at: [2], used: [20], card: [5] });
  columns.append({ at: [3], used: [30] });
  assert.deepEqual(columns.aligned(["used", "card"], 3), [[1, 2, 3], [10, 20, 30], [null, 5, null]]);
});

test("units are scaled, holes stay holes", () => {
  const columns = new Columns(600);
  columns.reset({ at: [1, 2], used: [300, null] });
  assert.deepEqual(columns.aligned(["used"], 3, 10), [[1, 2], [30, null]]);
});
