// Draws the live charts: columns of the newest minutes into uPlot. Owns no connection; live.js brings the frames.
import uPlot from "../vendor/uplot.js";
import { live } from "./live.js";

/** Columns over time, trimmed to the newest `span` seconds. Times are whole Unix seconds and rise. */
export class Columns {
  constructor(span) {
    this.span = span;
    this.at = [];
    this.values = new Map();
  }

  /** Replaces everything by `columns` ({at: [...], name: [...]}). */
  reset(columns) {
    this.at = [...columns.at];
    this.values = new Map(Object.entries(columns).filter(([name]) => name !== "at").map(([name, list]) => [name, [...list]]));
    this.trim();
  }

  /** Appends what is newer than what we have; a name that is new has no data before. */
  append(columns) {
    const last = this.at.at(-1) ?? -Infinity;
    const first = columns.at.findIndex((at) => at > last);
    if (first < 0) return;
    const added = columns.at.slice(first);
    for (const name of new Set([...this.values.keys(), ...Object.keys(columns)])) {
      if (name === "at") continue;
      const before = this.values.get(name) ?? this.at.map(() => null);
      this.values.set(name, before.concat(columns[name]?.slice(first) ?? added.map(() => null)));
    }
    this.at = this.at.concat(added);
    this.trim();
  }

  trim() {
    const edge = (this.at.at(-1) ?? 0) - this.span;
    const cut = this.at.findIndex((at) => at >= edge);
    if (cut <= 0) return;
    this.at = this.at.slice(cut);
    for (const [name, list] of this.values) this.values.set(name, list.slice(cut));
  }

  /** uPlot's form: times and one list per name, with a hole wherever more than `gap` seconds lie between two points. */
  aligned(names, gap, scale = 1) {
    const times = [];
    const lists = names.map(() => []);
    this.at.forEach((at, index) => {
      const before = this.at[index - 1];
      if (before !== undefined && at - before > gap) {
        times.push(before + 1);
        for (const list of lists) list.push(null);
      }
      times.push(at);
      names.forEach((name, column) => {
        const value = this.values.get(name)?.[index] ?? null;
        lists[column].push(value === null ? null : value / scale);
      });
    });
    return [times, ...lists];
  }
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SPAN_SECONDS = 600;
const GAP_SECONDS = 3;

// What each kind of chart shows: column, colour, how it is drawn. `scale` turns stored units into shown ones.
const kinds = {
  compute: {
    scale: 10,
    unit: "%",
    top: () => 100,
    lines: [
      { column: "card", colour: "--others-use", width: 1.5 },
      { column: "limit", colour: "--borrowed", width: 1.5, dash: [6, 4] },
      { column: "used", colour: "--own-use", width: 2, fill: true },
    ],
  },
  memory: {
    scale: 1024 ** 3,
    unit: "GiB",
    top: (element) => Number(element.dataset.top) / 1024 ** 3,
    lines: [
      { column: "card_memory", colour: "--others-use", width: 1.5 },
      { column: "memory_limit", colour: "--memory", width: 1.5, dash: [6, 4] },
      { column: "memory", colour: "--memory-use", width: 2, fill: true },
    ],
  },
  throttled: { scale: 1, unit: "ms/s", top: () => null, lines: [{ column: "throttled", colour: "--throttle", width: 1.5, fill: true }] },
};

function axis(extra) {
  const line = css("--line");
  return { stroke: css("--muted"), font: '12px "Inter", sans-serif', grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, ...extra };
}

function options(element, kind, language) {
  const format = (more) => new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hour12: false, ...more });
  const [minutes, seconds] = [format({}), format({ second: "2-digit" })];
  const top = kind.top(element);
  return {
    width: element.clientWidth,
    height: element.clientHeight,
    padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: top === null ? (_, __, max) => [0, Math.max(10, max || 0)] : [0, top] } },
    axes: [
      axis({ size: 28, space: 80, values: (_, ticks, __, ___, step) => ticks.map((tick) => (step < 60 ? seconds : minutes).format(tick * 1000)) }),
      axis({ size: 44, values: (_, ticks) => ticks.map((tick) => `${tick}`) }),
    ],
    series: [
      {},
      ...kind.lines.map((line) => ({
        stroke: css(line.colour),
        width: line.width,
        dash: line.dash,
        fill: line.fill ? `color-mix(in srgb, ${css(line.colour)} 14%, transparent)` : undefined,
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

class Chart {
  constructor(element, columns) {
    this.element = element;
    this.columns = columns;
    this.kind = kinds[element.dataset.chart];
    this.prefix = element.dataset.prefix ?? "0.";
    this.queued = false;
    new ResizeObserver(() => this.plot?.setSize({ width: element.clientWidth, height: element.clientHeight })).observe(element);
    document.addEventListener("theme:changed", () => this.rebuild());
  }

  data() {
    return this.columns.aligned(this.kind.lines.map((line) => this.prefix + line.column), GAP_SECONDS, this.kind.scale);
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = new uPlot(options(this.element, this.kind, document.documentElement.lang), this.data(), this.element);
  }

  refresh() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      const empty = this.element.querySelector(".plot-empty");
      if (empty) empty.hidden = this.columns.at.length > 0;
      if (this.columns.at.length === 0) return;
      if (this.plot) this.plot.setData(this.data());
      else this.rebuild();
    });
  }
}

function mount() {
  const columnsOf = new Map();
  for (const element of document.querySelectorAll("[data-chart]")) {
    const topic = element.dataset.live;
    let shared = columnsOf.get(topic);
    if (!shared) {
      shared = { columns: new Columns(SPAN_SECONDS), charts: [] };
      columnsOf.set(topic, shared);
      live.topics.add(topic, (frame) => {
        if (frame.snapshot) shared.columns.reset(frame.snapshot.columns);
        else shared.columns.append(frame.patch.columns);
        for (const chart of shared.charts) chart.refresh();
      });
    }
    shared.charts.push(new Chart(element, shared.columns));
  }
}

if (live) mount();
