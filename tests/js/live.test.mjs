import assert from "node:assert/strict";
import { test } from "node:test";
import { CLOSE, Live, Topics, backoff, isStale, judge } from "../../static/js/live.js";

// A stand-in for the browser: sockets that the test opens and closes, a clock that it turns, timers that it fires.
function stage(poll = async () => ({ frames: [] })) {
  const env = { sockets: [], timers: [], polls: [], said: [], clock: 1000 };
  Object.assign(env, {
    open: () => {
      const socket = { sent: [], send: (text) => socket.sent.push(JSON.parse(text)) };
      env.sockets.push(socket);
      return socket;
    },
    get: async (cursors) => {
      env.polls.push(structuredClone(cursors));
      return poll(cursors);
    },
    later: (run, ms) => env.timers.push({ run, ms }),
    now: () => env.clock,
    random: () => 0,
    fire: () => env.timers.splice(0).forEach(({ run }) => run()),
  });
  env.live = new Live(env, (word) => env.said.push(word));
  return env;
}
const settled = () => new Promise((done) => setImmediate(done));
const message = (frames, n = 1) => ({ data: JSON.stringify({ n, now: 1000, frames, gone: [] }) });

test("the wait before a new try doubles up to 30 s and half of it is chance", () => {
  assert.deepEqual([0, 1, 2, 9].map((n) => backoff(n, () => 1)), [500, 1000, 2000, 30000]);
  assert.equal(backoff(2, () => 0), 1000);
});

test("a patch applies only on top of the frame before it", () => {
  assert.equal(judge({ seq: 4, from: 3, patch: {} }, 3), "apply");
  assert.equal(judge({ seq: 5, from: 4, patch: {} }, 3), "resync");
  assert.equal(judge({ seq: 3, from: 2, patch: {} }, 3), "ignore");
  assert.equal(judge({ seq: 1, from: 0, patch: {} }, null), "resync");
  assert.equal(judge({ seq: 9, snapshot: {} }, null), "apply");
});

test("a figure is stale after three of its periods", () => {
  assert.equal(isStale(100, 2, 106), false);
  assert.equal(isStale(100, 2, 106.1), true);
});

test("parts of one topic share a cursor, and all handlers see a frame", () => {
  const topics = new Topics();
  const seen = [];
  topics.add("home:", () => seen.push("a"), { seq: 0, tags: { a: "1" } });
  topics.add("home:", () => seen.push("b"), { seq: 0, tags: { b: "2" } });
  assert.deepEqual(topics.cursors(), { "home:": { seq: 0, tags: { a: "1", b: "2" } } });
  assert.equal(topics.take({ topic: "home:", seq: 1, from: 0, patch: { parts: {} } }), true);
  assert.deepEqual(seen, ["a", "b"]);
  assert.equal(topics.cursors()["home:"].seq, 1);
});

test("after a gap the topic is asked for anew", () => {
  const { live, sockets } = stage();
  live.topics.add("home:", () => {}, { seq: 3 });
  live.start();
  sockets[0].onopen();
  sockets[0].onmessage(message([{ topic: "home:", seq: 9, from: 8, patch: {} }]));
  assert.deepEqual(sockets[0].sent, [{ subscribe: { "home:": { seq: 3, tags: {} } } }, { ack: 1 }, { subscribe: { "home:": null } }]);
});

test("a reconnected page tells where it stood", () => {
  const { live, sockets, fire } = stage();
  live.topics.add("home:", () => {}, { seq: 0 });
  live.start();
  sockets[0].onopen();
  sockets[0].onmessage(message([{ topic: "home:", seq: 1, from: 0, patch: {} }]));
  sockets[0].onclose({ code: 1006 });
  fire();
  sockets[1].onopen();
  assert.equal(sockets[1].sent[0].subscribe["home:"].seq, 1);
});

test("one lost connection is mended quietly, the second try that fails starts polling and says so", async () => {
  const { live, sockets, fire, said, polls } = stage();
  live.topics.add("home:", () => {}, { seq: 0 });
  live.start();
  sockets[0].onclose({ code: 1006 });
  assert.deepEqual(said, []);
  fire();
  sockets[1].onclose({ code: 1006 });
  await settled();
  assert.deepEqual(said, ["polling"]);
  assert.equal(polls.length, 1);
});

test("polling ends, and the banner with it, when the socket speaks again", async () => {
  const { live, sockets, fire, said, polls } = stage();
  live.topics.add("home:", () => {}, { seq: 0 });
  live.start();
  for (const _ of [0, 1]) {
    sockets.at(-1).onclose({ code: 1006 });
    fire();
  }
  await settled();
  sockets.at(-1).onopen();
  sockets.at(-1).onmessage(message([]));
  assert.equal(said.at(-1), "");
  const before = polls.length;
  fire();
  await settled();
  assert.equal(polls.length, before);
});

test("a poll applies frames as the socket would", async () => {
  const frames = [{ topic: "home:", seq: 1, from: 0, patch: { parts: {} } }];
  const { live, sockets, fire } = stage(async () => ({ frames, now: 1005 }));
  let applied = 0;
  live.topics.add("home:", () => (applied += 1), { seq: 0 });
  live.start();
  for (const _ of [0, 1]) {
    sockets.at(-1).onclose({ code: 1006 });
    fire();
  }
  await settled();
  assert.equal(applied, 1);
  assert.equal(live.now(), 1005);
});

test("a session that ended stops everything and says how to go on", () => {
  const { live, sockets, said, timers } = stage();
  live.topics.add("home:", () => {}, { seq: 0 });
  live.start();
  sockets[0].onclose({ code: CLOSE.signedOut });
  assert.deepEqual(said.at(-1), "signedOut");
  assert.equal(timers.length, 0);
});

test("too many open pages: this one polls and tries again later", async () => {
  const { live, sockets, said, timers } = stage();
  live.topics.add("home:", () => {}, { seq: 0 });
  live.start();
  sockets[0].onclose({ code: CLOSE.tooMany });
  await settled();
  assert.equal(said[0], "tooMany");
  assert.ok(timers.some(({ ms }) => ms === 60000));
});

test("what was deleted is said and no longer asked for", () => {
  const { live, sockets, said } = stage();
  live.topics.add("workload:1", () => {}, { seq: 0 });
  live.start();
  sockets[0].onopen();
  sockets[0].onmessage({ data: JSON.stringify({ n: 1, now: 1000, frames: [], gone: ["workload:1"] }) });
  assert.equal(said.at(-1), "gone");
  assert.deepEqual(live.topics.cursors(), {});
});
