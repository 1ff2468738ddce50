// A terminal in a page: xterm.js over one websocket. Bytes go both ways; sizes and confirmations go as JSON (apps/dashboard/live/terminal.py).
import { Terminal } from "../vendor/xterm.js";
import { FitAddon } from "../vendor/xterm-fit.js";

/** Which sentence of the page (a data attribute of the section) tells why the socket closed with `code`. */
export function sentenceOf(code, ended) {
  if (ended) return "ended";
  return { 4401: "signedOut", 4403: "refused", 4404: "away", 4429: "tooMany" }[code] ?? "broken";
}

/** Lets xterm.js style itself under a policy without inline styles: its style elements become adopted sheets, its style
 *  attributes are written through the object model, which the policy allows. */
export function withoutInlineStyles(doc) {
  const create = doc.createElement;
  doc.createElement = function createElement(name, ...rest) {
    if (name === "style") return sheetElement(doc, create);
    const made = create.call(doc, name, ...rest);
    if (name === "span") {
      const set = made.setAttribute;
      made.setAttribute = (key, value) => (key === "style" ? (made.style.cssText = value) : set.call(made, key, value));
    }
    return made;
  };
}

function sheetElement(doc, create) {
  const sheet = new CSSStyleSheet();
  const made = create.call(doc, "span");
  made.hidden = true;
  doc.adoptedStyleSheets.push(sheet);
  Object.defineProperty(made, "textContent", { set: (text) => sheet.replaceSync(text), get: () => "" });
  const remove = made.remove;
  made.remove = () => {
    doc.adoptedStyleSheets = doc.adoptedStyleSheets.filter((one) => one !== sheet);
    remove.call(made);
  };
  return made;
}

function colours(element) {
  const style = getComputedStyle(element);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    background: value("--surface"),
    foreground: value("--ink"),
    cursor: value("--accent"),
    cursorAccent: value("--surface"),
    selectionBackground: value("--accent-weak"),
    selectionForeground: value("--ink"),
    scrollbarSliderBackground: value("--line"),
    scrollbarSliderHoverBackground: value("--others"),
    scrollbarSliderActiveBackground: value("--others"),
  };
}

class Session {
  constructor(section) {
    this.section = section;
    this.state = section.querySelector("[data-state]");
    this.again = section.querySelector("[data-again]");
    this.screen = section.querySelector("[data-screen]");
    this.term = new Terminal({
      fontFamily: getComputedStyle(this.screen).fontFamily,
      fontSize: 14,
      lineHeight: 1.2,
      cursorBlink: false,
      minimumContrastRatio: 4.5,
      screenReaderMode: true,
      scrollback: 5000,
      theme: colours(section),
    });
    this.fit = new FitAddon();
    this.term.loadAddon(this.fit);
    this.term.open(this.screen);
    this.term.textarea?.setAttribute("aria-label", section.dataset.label);
    this.fit.fit();
    this.term.onData((text) => this.send(new TextEncoder().encode(text)));
    this.term.onBinary((text) => this.send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.term.onResize(() => this.tellSize());
    this.term.attachCustomKeyEventHandler((event) => this.key(event));
    this.again.addEventListener("click", () => this.connect());
    new ResizeObserver(() => this.fit.fit()).observe(this.screen);
    const recolour = () => (this.term.options.theme = colours(section));
    new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
    this.connect();
  }

  /** Ctrl+F6 leaves: everything else, the tabulator too, belongs to the program. */
  key(event) {
    if (event.key !== "F6" || !event.ctrlKey) return true;
    if (event.type === "keydown") document.querySelector(".console-head a")?.focus();
    return false;
  }

  connect() {
    this.again.hidden = true;
    this.ended = false;
    this.say("connecting");
    const address = new URL(this.section.dataset.terminal, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = (this.socket = new WebSocket(address));
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.told(JSON.parse(data)) : this.show(new Uint8Array(data)));
    socket.onclose = ({ code }) => this.closed(code);
  }

  told(message) {
    if (message.started) {
      this.term.reset();
      this.say("connected");
      this.tellSize();
      this.term.focus();
    }
    if ("ended" in message) this.ended = true;
  }

  /** What is drawn is confirmed, so that the program waits for a slow screen. */
  show(bytes) {
    this.term.write(bytes, () => this.sendJson({ ack: bytes.length }));
  }

  closed(code) {
    this.say(sentenceOf(code, this.ended));
    this.again.hidden = code === 4401 || code === 4403;
  }

  say(key) {
    this.state.textContent = this.section.dataset[key];
    this.section.dataset.is = key;
  }

  tellSize() {
    this.sendJson({ size: [this.term.cols, this.term.rows] });
  }

  sendJson(message) {
    this.send(JSON.stringify(message));
  }

  send(content) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(content);
  }
}

if (typeof document !== "undefined") {
  const section = document.querySelector("[data-terminal]");
  if (section) {
    withoutInlineStyles(document);
    new Session(section);
  }
}
