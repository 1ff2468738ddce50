// Copies the pinned third-party assets that the pages load from node_modules to static/vendor (not committed), and makes
// one sprite of the icons in use. Run after `npm ci`; repeating it gives the same bytes.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const project = join(dirname(fileURLToPath(import.meta.url)), "..");
const modules = join(project, "node_modules");
const vendor = join(project, "static", "vendor");

// Every icon that a template names; tests/unit/dashboard/test_icons.py compares this list with the templates.
export const icons = [
  "adjustments", "alert-triangle", "ban", "building", "chevron-down", "circle-check", "circle-dashed", "circle-x", "clock-plus", "copy", "cpu", "device-floppy",
  "dots", "external-link", "flask", "help-circle", "history", "home", "hourglass", "info-circle", "key", "keyboard", "language", "layout-grid",
  "loader", "logout", "pencil", "player-play", "player-stop", "plus", "search", "shield-check", "shield-lock", "square", "stack-2", "terminal-2", "trash", "user",
  "user-plus", "users", "wifi-off",
];

const copies = {
  "tabler.css": "@tabler/core/dist/css/tabler.min.css",
  "uplot.css": "uplot/dist/uPlot.min.css",
  "uplot.js": "uplot/dist/uPlot.esm.js",
  "xterm.css": "@xterm/xterm/css/xterm.css",
  "xterm.js": "@xterm/xterm/lib/xterm.mjs",
  "xterm-fit.js": "@xterm/addon-fit/lib/addon-fit.mjs",
  "idiomorph.js": "idiomorph/dist/idiomorph.esm.js",
  "inter.woff2": "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
};
const licences = ["@tabler/core", "@tabler/icons", "uplot", "idiomorph", "@xterm/xterm", "@xterm/addon-fit", "@fontsource-variable/inter"];

function fail(sentence) {
  console.error(sentence);
  process.exit(1);
}

/** The file without its pointer to a source map, which is not shipped. */
function withoutMap(text) {
  return text.replace(/\/\*# sourceMappingURL=.*?\*\/\s*$/s, "").replace(/\/\/# sourceMappingURL=.*\s*$/, "");
}

function copyAssets() {
  for (const [name, source] of Object.entries(copies)) {
    const from = join(modules, source);
    if (!existsSync(from)) fail(`${source} is missing below node_modules. Run: npm ci`);
    const to = join(vendor, name);
    if (name.endsWith(".woff2")) copyFileSync(from, to);
    else writeFileSync(to, withoutMap(readFileSync(from, "utf8")));
  }
}

/** One outline icon as a <symbol>; strokes take the text's colour. */
function symbol(name) {
  const file = join(modules, "@tabler", "icons", "icons", "outline", `${name}.svg`);
  if (!existsSync(file)) fail(`Tabler has no icon named ${name}; see the list in scripts/assets.mjs.`);
  const text = readFileSync(file, "utf8");
  const inner = text.slice(text.indexOf(">", text.indexOf("<svg")) + 1, text.lastIndexOf("</svg>")).replace(/\s*\n\s*/g, "");
  return `<symbol id="${name}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round">${inner}</symbol>`;
}

function writeSprite() {
  const body = icons.map(symbol).join("\n");
  writeFileSync(join(vendor, "icons.svg"), `<svg xmlns="http://www.w3.org/2000/svg">\n${body}\n</svg>\n`);
}

function writeLicences() {
  const parts = licences.map((name) => {
    const about = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((f) => join(modules, name, f)).find(existsSync);
    return `${name} ${about.version} (${about.license})\n\n${file ? readFileSync(file, "utf8") : ""}`;
  });
  writeFileSync(join(vendor, "LICENCES.txt"), parts.join(`\n${"-".repeat(80)}\n`));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  rmSync(vendor, { recursive: true, force: true });
  mkdirSync(vendor, { recursive: true });
  copyAssets();
  writeSprite();
  writeLicences();
  console.log(`static/vendor: ${Object.keys(copies).length} files and ${icons.length} icons`);
}
