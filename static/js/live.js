// Keeps a page current over one websocket: subscribes to the topics that the page names, applies frames, shows the age of what
// is seen, and falls back to polling when the socket fails. Owns no drawing of charts and no menus.
//
// A frame is {topic, seq, at, snapshot|patch}. A patch applies only on top of the frame before it (seq - 1); on a gap we ask again.
import { Idiomorph } from "../vendor/idiomorph.js";

export const CLOSE = { signedOut: 4401, stale: 4408, tooMany: 4429 };
const POLL_MS = 5000;
const STALE_AFTER_PERIODS = 3;

/** Milliseconds before try number `attempt` (from 0): doubling from half a second to 30 s, and half of it by chance. */
export function backoff(attempt, random = Math.random) {
  const ceiling = Math.min(30000, 500 * 2 ** attempt);
  return Math.round(ceiling / 2 + (ceiling / 2) * random());
}

/** What to do with `frame` when `seq` was the last one applied: "apply", "ignore" (seen already) or "resync" (one is missing). */
export function judge(frame, seq) {
  if (frame.snapshot !== undefined) return "apply";
  if (seq === null || seq === undefined) return "resync";
  if (frame.seq <= seq) return "ignore";
  return frame.from === seq ? "apply" : "resync";
}

/** Whether a figure from `at` (Unix seconds) that comes every `period` seconds is too old to be called current. */
export function isStale(at, period, now) {
  return now - at > STALE_AFTER_PERIODS * period;
}

/** The topics of a page: who wants them, and how far each one got. Pure bookkeeping. */
export class Topics {
  constructor() {
    this.all = new Map();
  }

  add(name, apply, cursor = null) {
    const topic = this.all.get(name) ?? { seq: null, cursor: null, handlers: [], confirmed: null };
    topic.handlers.push(apply);
    if (cursor) topic.cursor = { ...topic.cursor, ...cursor, tags: { ...topic.cursor?.tags, ...cursor.tags } };
    if (cursor?.seq !== undefined) topic.seq = cursor.seq;
    this.all.set(name, topic);
  }

  /** What to tell the server: where we stand in each topic. */
  cursors() {
    return Object.fromEntries([...this.all].map(([name, topic]) => [name, topic.cursor]));
  }

  /** Applies one frame; returns false when the topic has to be asked for anew. */
  take(frame) {
    const topic = this.all.get(frame.topic);
    if (!topic) return true;
    const verdict = judge(frame, topic.seq);
    if (verdict === "resync") {
      topic.cursor = null;
      topic.seq = null;
      return false;
    }
    if (verdict === "apply") {
      topic.seq = frame.seq;
      topic.cursor = { ...(frame.snapshot === undefined ? topic.cursor : null), seq: frame.seq };
      for (const handler of topic.handlers) handler(frame, topic);
    }
    return true;
  }
}

// --- The page ---------------------------------------------------------------------------------------------------------------
const keepAsTheyAre = new Set(["open", "data-hidden-by-person"]);

/** Makes `element` show `html` while everything that did not change keeps its identity: focus, pointer, open menus, scrolling. */
export function morph(element, html) {
  Idiomorph.morph(element, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: { beforeAttributeUpdated: (name) => !keepAsTheyAre.has(name) },
  });
  element.dispatchEvent(new CustomEvent("live:changed", { bubbles: true }));
}

/** Whether replacing `element` now would move things under a hand: it is pressed, the pointer rests in a list, a menu or field is in use. */
function inUse(element) {
  if (element.matches(":active")) return true;
  if (element.querySelector("details.menu[open], dialog[open]")) return true;
  if (element.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return true;
  return element.hasAttribute("data-hold") && element.matches(":hover");
}

/** A part of the page that the server renders; the newest text waits while a person is at it. */
class Part {
  constructor(element) {
    this.element = element;
    this.waiting = null;
    for (const event of ["pointerleave", "focusout", "toggle"]) {
      element.addEventListener(event, () => setTimeout(() => this.settle(), 0), { capture: true });
    }
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => this.settle(), 0)); // anywhere
  }

  show(html, tag) {
    this.waiting = { html, tag };
    this.settle();
  }

  settle() {
    if (!this.waiting || inUse(this.element)) return;
    morph(this.element, this.waiting.html);
    this.element.dataset.tag = this.waiting.tag;
    this.waiting = null;
  }
}

function addParts(live) {
  for (const element of document.querySelectorAll("[data-live][data-part]")) {
    const part = new Part(element);
    const name = element.dataset.part;
    live.topics.add(
      element.dataset.live,
      (frame, topic) => {
        const parts = frame.snapshot?.parts ?? frame.patch.parts;
        topic.cursor.tags = { ...topic.cursor.tags, ...Object.fromEntries(Object.entries(parts).map(([key, value]) => [key, value.tag])) };
        if (name in parts) part.show(parts[name].html, parts[name].tag);
      },
      { seq: 0, tags: { [name]: element.dataset.tag } },
    );
  }
}

/** Output of a run: appended, and followed while the reader is at its end. */
function addLogs(live) {
  for (const element of document.querySelectorAll("[data-live][data-log]")) {
    const append = (frame) => {
      const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
      if (frame.snapshot) element.textContent = frame.snapshot.text;
      else element.append(frame.patch.text);
      const limit = 400000;
      if (element.textContent.length > limit) element.textContent = element.textContent.slice(-limit / 2);
      if (atEnd) element.scrollTop = element.scrollHeight;
    };
    live.topics.add(element.dataset.live, append);
    element.scrollTop = element.scrollHeight;
  }
}

// --- The connection ---------------------------------------------------------------------------------------------------------
export class Live {
  /** `env` carries what tests replace: open(url) -> WebSocket, get(url, body) -> Promise<json>, later(f, ms), now() -> seconds. */
  constructor(env, say) {
    this.env = env;
    this.say = say;
    this.topics = new Topics();
    this.attempt = 0;
    this.polling = null;
    this.offset = 0; // server's clock minus ours, seconds
    this.socket = null;
  }

  now() {
    return this.env.now() + this.offset;
  }

  start() {
    if (this.topics.all.size > 0) this.connect();
  }

  connect() {
    const socket = this.env.open();
    this.socket = socket;
    socket.onopen = () => socket.send(JSON.stringify({ subscribe: this.topics.cursors() }));
    socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    socket.onclose = (event) => this.closed(event.code);
  }

  receive(message) {
    this.attempt = 0;
    this.stopPolling();
    const lost = this.apply(message);
    if (message.n !== undefined) this.socket.send(JSON.stringify({ ack: message.n }));
    if (lost.length > 0) this.socket.send(JSON.stringify({ subscribe: Object.fromEntries(lost.map((name) => [name, null])) }));
  }

  /** Applies a message of the socket or of the poll; returns the topics with a gap. */
  apply(message) {
    if (message.now) this.offset = message.now - this.env.now();
    for (const gone of message.gone ?? []) {
      this.topics.all.delete(gone);
      this.say("gone");
    }
    return (message.frames ?? []).filter((frame) => !this.topics.take(frame)).map((frame) => frame.topic);
  }

  closed(code) {
    if (this.socket) this.socket.onmessage = this.socket.onclose = null;
    if (code === CLOSE.signedOut) {
      this.stopPolling();
      this.say("signedOut");
      return;
    }
    if (code === CLOSE.tooMany) this.startPolling("tooMany");
    else if (this.attempt >= 1) this.startPolling("polling");
    this.env.later(() => this.connect(), code === CLOSE.tooMany ? 60000 : backoff(this.attempt, this.env.random));
    this.attempt += 1;
  }

  startPolling(why) {
    this.say(why);
    if (this.polling) return;
    this.polling = { active: true };
    this.poll(this.polling);
  }

  async poll(mine) {
    while (mine.active) {
      try {
        const lost = this.apply(await this.env.get(this.topics.cursors()));
        if (mine.active && lost.length === 0) await new Promise((done) => this.env.later(done, POLL_MS));
      } catch (error) {
        if (error.status === 401) {
          this.stopPolling();
          this.say("signedOut");
          return;
        }
        await new Promise((done) => this.env.later(done, POLL_MS));
      }
    }
  }

  stopPolling() {
    if (!this.polling) return;
    this.polling.active = false;
    this.polling = null;
    this.say("");
  }
}

/** Greys every figure that is older than three of its periods, and says since when. */
export function showAges(live, root = document) {
  for (const element of root.querySelectorAll("[data-at]")) {
    const at = Number(element.dataset.at);
    const stale = isStale(at, Number(element.dataset.period ?? 1), live.now());
    element.classList.toggle("stale", stale);
    const note = element.querySelector("[data-age]");
    if (note) note.hidden = !stale;
  }
}

function browser(page) {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return {
    open: () => new WebSocket(`${scheme}//${location.host}${page.liveSocket}?lang=${document.documentElement.lang}`),
    get: async (cursors) => {
      const response = await fetch(`${page.livePoll}?${new URLSearchParams({ topics: JSON.stringify(cursors) })}`, {
        headers: { Accept: "application/json" },
      });
      if (!response.ok) throw Object.assign(new Error(response.statusText), { status: response.status });
      return response.json();
    },
    later: (run, ms) => setTimeout(run, ms),
    now: () => Date.now() / 1000,
    random: Math.random,
  };
}

function banner(word) {
  const element = document.getElementById("live-banner");
  if (!element) return;
  for (const child of element.querySelectorAll("[data-when]")) child.hidden = child.dataset.when !== word;
  element.hidden = !word;
}

/** The page's one connection, shared with chart.js. */
export const live = typeof document === "undefined" ? null : new Live(browser(document.body.dataset), banner);

if (live) {
  addParts(live);
  addLogs(live);
  setInterval(() => showAges(live), 1000);
  // After the other modules had their turn to add topics.
  queueMicrotask(() => addEventListener("DOMContentLoaded", () => live.start(), { once: true }));
  if (document.readyState === "complete") live.start();
}
