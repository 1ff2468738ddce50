// Small behaviours of the pages: keys, menus, dialogues, sliders, relative times, forms that are never sent twice nor lost.
// Owns no data. Texts come from the page (data attributes), already in the person's language.

// --- Times ------------------------------------------------------------------------------------------------------------------
/** {unit, n} in which `seconds` (any sign) is best said; unit is "now" below ten seconds. Same rule as templatetags/times.py. */
export function ageOf(seconds) {
  const size = Math.abs(seconds);
  if (size < 10) return { unit: "now", n: 0 };
  if (size < 60) return { unit: "second", n: Math.floor(size) };
  if (size < 3600) return { unit: "minute", n: Math.floor(size / 60) };
  if (size < 86400) return { unit: "hour", n: Math.floor(size / 3600) };
  return { unit: "day", n: Math.floor(size / 86400) };
}

/** `seconds` ago (negative: to come) in the words of `words` ({now, "second-ago": "{n} s ago", …}). */
export function relative(seconds, words) {
  const { unit, n } = ageOf(seconds);
  if (unit === "now") return words.now;
  return words[`${unit}-${seconds >= 0 ? "ago" : "ahead"}`].replace("{n}", n);
}

/** A length of time in at most two units: "42 s", "3 min 5 s", "2 h 5 min", "3 d 4 h". Same rule as templatetags/times.py. */
export function lengthOf(seconds, words) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  let rest = whole;
  const counted = parts.map(([unit, size]) => {
    const n = Math.floor(rest / size);
    rest -= n * size;
    return [unit, n];
  });
  const first = counted.findIndex(([, n]) => n > 0);
  if (first < 0) return words.second.replace("{n}", "0");
  return counted
    .slice(first, first + 2)
    .filter(([, n], index) => index === 0 || n > 0)
    .map(([unit, n]) => words[unit].replace("{n}", n))
    .join(words.joint);
}

function tellTimes() {
  const words = JSON.parse(document.documentElement.dataset.words);
  const now = Date.now() / 1000;
  for (const element of document.querySelectorAll("time[data-say]")) {
    const seconds = now - Date.parse(element.dateTime) / 1000;
    const text = element.dataset.say === "age" ? relative(seconds, words) : lengthOf(element.dataset.say === "until" ? -seconds : seconds, words);
    if (element.textContent !== text) element.textContent = text;
  }
}

// --- Keys -------------------------------------------------------------------------------------------------------------------
/** What `key` means, after `before` (the key just pressed): "search", "help", a place to go, or null. */
export function meaning(key, before) {
  if (before === "g") return { h: "home", e: "experiments", n: "new", c: "cluster", t: "tenants", a: "account" }[key] ?? null;
  return { "/": "search", "?": "help" }[key] ?? null;
}

function listenToKeys() {
  let before = "";
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
    const wanted = meaning(event.key, before);
    before = event.key;
    if (wanted === "search") document.getElementById("search")?.focus();
    else if (wanted === "help") document.getElementById("keys")?.showModal();
    else if (wanted) document.querySelector(`a[data-key="${wanted}"]`)?.click();
    else return;
    event.preventDefault();
  });
}

// --- Menus and dialogues ----------------------------------------------------------------------------------------------------
function listenToClicks() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    const opener = event.target.closest("[data-dialog]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.dialog);
      if (dialog) {
        event.preventDefault();
        opener.closest("details.menu")?.removeAttribute("open");
        dialog.showModal();
      }
    }
    if (event.target.closest("[data-close]")) event.target.closest("dialog")?.close();
    if (event.target.closest("[data-slim]")) {
      const slim = document.documentElement.classList.toggle("sidebar-slim");
      localStorage.setItem("sidebar", slim ? "slim" : "");
    }
    const copier = event.target.closest("[data-copy]");
    if (copier) copyText(copier);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}

async function copyText(button) {
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
  const label = button.querySelector("[data-label]");
  label.textContent = button.dataset.done;
}

// --- Forms ------------------------------------------------------------------------------------------------------------------
/** A form is sent once: the second click of a double click finds it busy. Coming back by the browser's history frees it. */
function sendOnce() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method === "dialog" || form.hasAttribute("hx-get")) return;
    if (form.dataset.busy) {
      event.preventDefault();
      return;
    }
    form.dataset.busy = "1";
    event.submitter?.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-busy]")) delete form.dataset.busy;
    for (const button of document.querySelectorAll("[aria-busy='true']")) button.removeAttribute("aria-busy");
  });
}

/**
 * Nothing moves under a hand. A button that is replaced or pushed aside between press and release gets no click, so an answer that
 * comes while a form is pressed is shown after the release. Needed because leaving a field, by that very press, asks anew.
 */
function holdStill() {
  let held = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, serverResponse } = event.detail;
    held = null;
    if (!event.detail.shouldSwap || !target.closest("form")?.matches(":active")) return;
    event.detail.shouldSwap = false;
    held = { target, html: serverResponse };
  });
  const release = () => {
    if (held) htmx.swap(held.target, held.html, { swapStyle: "innerHTML" });
    held = null;
  };
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(release, 0)); // the click comes first
}

/** Fields named in data-follows show and set the same value as the slider beside them. */
function joinSliders() {
  document.addEventListener("input", (event) => {
    const other = event.target.dataset?.pair && document.getElementById(event.target.dataset.pair);
    if (other) other.value = event.target.value;
    if (event.target.closest("[data-custom]")) {
      const custom = document.querySelector("input[name='flavour'][value='custom']");
      if (custom && !custom.checked) custom.checked = true;
    }
  });
}

/** Selects of a filter act at once; a button offers values to the form around it (the nearest choice that fits). */
function actOnChoices() {
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-submit-on-change]");
    if (form && event.target.matches("select")) form.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    const offer = event.target.closest("[data-fill]");
    if (!offer) return;
    const form = offer.closest("form");
    const values = JSON.parse(offer.dataset.fill);
    if (values.flavour === "custom") form.querySelector("[data-custom]").open = true;
    restore(form, values);
  });
}

/** The draft of a form as plain data: what was typed or chosen, without secrets and without one-time values. */
export function draftOf(entries) {
  const passing = new Set(["csrfmiddlewaretoken", "key"]);
  return Object.fromEntries([...entries].filter(([name, value]) => !passing.has(name) && typeof value === "string"));
}

/** A form that was sent and is not shown again was taken; its draft is done. */
function forgetSentDraft() {
  const sent = sessionStorage.getItem("sent");
  sessionStorage.removeItem("sent");
  if (sent && !document.querySelector(`form[data-keep="${sent}"]`)) sessionStorage.removeItem(`draft:${sent}`);
}

function keepDrafts() {
  forgetSentDraft();
  for (const form of document.querySelectorAll("form[data-keep]")) {
    const place = `draft:${form.dataset.keep}`;
    const saved = sessionStorage.getItem(place);
    if (saved && !form.hasAttribute("data-answered")) restore(form, JSON.parse(saved));
    form.addEventListener("submit", () => sessionStorage.setItem("sent", form.dataset.keep));
    form.addEventListener("input", () => sessionStorage.setItem(place, JSON.stringify(draftOf(new FormData(form)))));
  }
}

function restore(form, draft) {
  for (const [name, value] of Object.entries(draft)) {
    const field = form.elements[name];
    if (!field) continue;
    field.value = value;
    const pair = field.dataset?.pair && document.getElementById(field.dataset.pair);
    if (pair) pair.value = value;
  }
  (form.querySelector("[hx-trigger]") ?? form).dispatchEvent(new Event("change", { bubbles: true }));
}

/** The server writes absolute times in the person's own zone; it learns the zone from this cookie. */
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `tessera_zone=${encodeURIComponent(zone)}; path=/; max-age=31536000; samesite=lax`;
}

if (typeof document !== "undefined") {
  tellZone();
  tellTimes();
  setInterval(tellTimes, 1000);
  document.addEventListener("live:changed", tellTimes);
  document.addEventListener("htmx:afterSwap", tellTimes);
  listenToKeys();
  listenToClicks();
  sendOnce();
  holdStill();
  joinSliders();
  actOnChoices();
  keepDrafts();
}
