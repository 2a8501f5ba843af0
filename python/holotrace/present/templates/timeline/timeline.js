// The timeline of the page: what keys, mouse and fingers do, and what it says of what it shows.

const HELP = "Drag to select, W and S or the wheel to zoom, A and D to move, 0 for all.";
const LEAST_NS = 200;

class Timeline {
  constructor(section, model) {
    this.section = section;
    this.model = model;
    this.part = (name) => section.querySelector(`.tl-${name}`);
    this.scroll = this.part("scroll");
    this.painter = new Painter(this.part("canvas"), model);
    this.opened = new Set(model.ranks.length <= 2 ? model.ranks.keys() : []);
    this.view = { from: model.begin, to: Math.max(model.end, model.begin + LEAST_NS), top: 0, wanted: null };
    this.frames = { drawn: 0, lastMs: 0 };
    this.#listen();
    this.resize();
    this.say();
  }

  // --- what is in view ---

  resize() {
    const width = Math.max(200, this.scroll.clientWidth);
    this.view.gutter = width < 600 ? GUTTER.narrow : GUTTER.wide;
    this.layout();
    const most = Math.max(240, Math.min(600, window.innerHeight * 0.7));
    const height = Math.min(most, AXIS + this.view.layout.height);
    this.painter.resize(width, height);
    this.scroll.style.height = `${height}px`;
    this.part("space").style.height = `${Math.max(0, AXIS + this.view.layout.height - height)}px`;
    this.redraw();
  }

  /** Opened ranks have room for calls of the host where these are in view and wide enough to be read. */
  layout() {
    const length = this.view.to - this.view.from;
    const calls = new Map();
    for (const place of this.opened) {
      for (const { from, to, deepest } of this.model.ranks[place].windows) {
        const both = Math.min(to, this.view.to) - Math.max(from, this.view.from);
        if (deepest && both > length / 20) calls.set(place, Math.max(deepest, calls.get(place) ?? 0));
      }
    }
    const key = `${[...this.opened].sort()}/${[...calls].sort()}`;
    if (key === this.laidOut) return false;
    this.laidOut = key;
    this.view.layout = laidOut(this.model, this.opened, calls);
    return true;
  }

  redraw() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      if (this.layout()) this.resize();
      const begun = performance.now();
      this.view.top = this.scroll.scrollTop;
      this.painter.draw(this.view);
      this.frames.drawn++;
      this.frames.lastMs = performance.now() - begun;
      this.refine?.(this);
    });
  }

  /** Show a time; it stays within the job, and is no shorter than anything that was recorded. */
  show(from, to) {
    const { begin, end } = this.model;
    const length = Math.min(Math.max(LEAST_NS, to - from), Math.max(LEAST_NS, end - begin));
    const first = Math.max(begin, Math.min(from + (to - from - length) / 2, end - length));
    Object.assign(this.view, { from: first, to: first + length });
    this.say();
    this.redraw();
  }

  /** Zoom so that what is at `x` stays there. */
  zoom(factor, x = (this.painter.width + this.view.gutter) / 2) {
    const at = this.time(x);
    this.show(at - (at - this.view.from) * factor, at + (this.view.to - at) * factor);
  }

  move(part) {
    const by = (this.view.to - this.view.from) * part;
    this.show(this.view.from + by, this.view.to + by);
  }

  all() {
    this.show(this.model.begin, this.model.end);
  }

  time(x) {
    const { from, to, gutter } = this.view;
    return from + ((x - gutter) / (this.painter.width - gutter)) * (to - from);
  }

  toggle(place) {
    if (this.opened.has(place)) this.opened.delete(place);
    else this.opened.add(place);
    this.layout();
    this.resize();
  }

  /** Show a rank, opened, around a time. */
  go(rank, at, length) {
    const place = this.model.place.get(rank);
    this.section.scrollIntoView({ block: "start" });
    if (place === undefined) return;
    const window = this.model.ranks[place].windows.find((known) => known.from <= at && at <= known.to);
    const [from, to] = window ? [window.from, window.to] : [at - length / 2, at + length / 2];
    this.opened.add(place);
    this.show(from - (to - from) * 0.1, to + (to - from) * 0.1);
    this.layout();
    this.resize();
    this.scroll.scrollTop = this.view.layout.rows[place].top - 8;
    this.scroll.focus({ preventScroll: true });
  }

  goToCause(number) {
    const mark = this.model.marks[number];
    if (!mark || mark.at === null) return;
    // What is due to no rank in particular is shown at the first.
    this.go(mark.rank ?? this.model.ranks[0].rank, mark.at, Math.max(2e6, this.model.piece * 40));
    this.part("said").textContent = `Cause ${number + 1}: ${mark.text} (worth up to ${mark.worth}).`;
  }

  // --- what it says ---

  say() {
    const { from, to } = this.view;
    const { piece } = this.model;
    const isFine = this.model.ranks.every(({ fine }) => fine && fine.from <= from && fine.to >= to);
    const finest = ` Outside of dashed frames one piece is ${duration(piece)}; nothing shorter is told there.`;
    const shown = `${moment(from, to - from)} to ${moment(to, to - from)}, ${duration(to - from)} in view.`;
    this.part("status").textContent = shown + (isFine ? "" : finest);
  }

  describe(found, row, lane) {
    const rank = this.model.ranks[row.place];
    const where = `rank ${rank.rank}, ${lane === "calls" ? "host" : lane}`;
    const share = found.exact ? "" : `, active ${Math.round(found.share * 100)}%, mostly this`;
    return `${found.name}\n${where}: ${duration(found.to - found.from)}${share}\nfrom ${moment(found.from, found.to - found.from)}`;
  }

  #sums() {
    const chosen = this.view.selection;
    const box = this.part("sums");
    if (!chosen) {
      box.replaceChildren();
      return;
    }
    const places = this.view.layout.rows.slice(chosen.first, chosen.last + 1).map(({ place }) => place);
    const ranks = places.map((place) => this.model.ranks[place]);
    const sums = this.model.sums(ranks, chosen.from, chosen.to);
    const whole = (chosen.to - chosen.from) * ranks.length;
    const title = document.createElement("p");
    const who = ranks.length === 1 ? `rank ${ranks[0].rank}` : `${ranks.length} ranks`;
    title.textContent = `Selected: ${duration(chosen.to - chosen.from)} of ${who}, from ${moment(chosen.from, chosen.to - chosen.from)}.`;
    const list = document.createElement("ul");
    for (const [lane, { ns, names }] of sums) {
      if (ns <= 0) continue;
      const top = [...names].sort((a, b) => b[1] - a[1]).slice(0, 3);
      const said = top.map(([name, part]) => `${this.model.names[name]} ${duration(part / ranks.length)}`);
      const each = ranks.length > 1 ? " per rank" : "";
      const item = document.createElement("li");
      const strong = document.createElement("b");
      strong.textContent = `${lane} ${duration(ns / ranks.length)}${each} (${((100 * ns) / whole).toFixed(1)}%)`;
      item.append(strong, `: ${said.join("; ")}`);
      list.append(item);
    }
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "Sums are of pieces, each counted for what took most of it.";
    box.replaceChildren(title, list, note);
  }

  // --- what people do ---

  #listen() {
    const canvas = this.part("canvas");
    this.scroll.addEventListener("keydown", (event) => this.#key(event));
    this.scroll.addEventListener("scroll", () => this.redraw(), { passive: true });
    this.scroll.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#moved(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.#up(event));
    canvas.addEventListener("pointerleave", () => this.#tip(null));
    canvas.addEventListener("dblclick", (event) => this.zoom(0.4, this.#inside(event).x));
    this.pointers = new Map();
    for (const button of this.section.querySelectorAll("button[data-do]")) {
      button.addEventListener("click", () => this.#do(button.dataset.do));
    }
    const search = this.part("search");
    search.addEventListener("input", () => this.#search(search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#next(event.shiftKey ? -1 : 1);
    });
    document.addEventListener("click", (event) => {
      const asked = event.target instanceof Element && event.target.closest("[data-timeline-cause]");
      if (!asked) return;
      event.preventDefault();
      this.goToCause(Number(asked.dataset.timelineCause));
    });
    new ResizeObserver(() => this.scroll.clientWidth !== this.painter.width && this.resize()).observe(this.scroll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.painter.theme();
      this.redraw();
    });
  }

  #do(what) {
    const actions = {
      all: () => this.all(),
      in: () => this.zoom(0.5),
      out: () => this.zoom(2),
      left: () => this.move(-0.3),
      right: () => this.move(0.3),
      open: () => this.#openAll(),
    };
    actions[what]?.();
  }

  #openAll() {
    const all = this.model.ranks.keys();
    this.opened = new Set(this.opened.size === this.model.ranks.length ? [] : all);
    this.layout();
    this.resize();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      w: () => this.zoom(0.7),
      s: () => this.zoom(1 / 0.7),
      a: () => this.move(-0.15),
      d: () => this.move(0.15),
      "+": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7),
      0: () => this.all(),
      ArrowLeft: () => this.move(-0.15),
      ArrowRight: () => this.move(0.15),
      "/": () => this.part("search").focus(),
      Escape: () => this.#select(null),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** The wheel zooms once one is at work here, else the page scrolls on as everywhere. */
  #wheel(event) {
    const isAtWork = document.activeElement === this.scroll;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      this.move(((event.deltaX || event.deltaY) / this.painter.width) * 0.8);
    } else if (isAtWork || event.ctrlKey) {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006), this.#inside(event).x);
    }
  }

  #inside(event) {
    const box = this.part("canvas").getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top - AXIS + this.scroll.scrollTop };
  }

  #down(event) {
    const at = this.#inside(event);
    this.scroll.focus({ preventScroll: true });
    this.pointers.set(event.pointerId, { ...at, began: at, touch: event.pointerType === "touch" });
    event.target.setPointerCapture(event.pointerId);
    this.#tip(null);
  }

  #moved(event) {
    const at = this.#inside(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.#hover(at, event);
    } else if (this.pointers.size === 2) {
      this.#pinch(event.pointerId, at);
    } else if (before.touch) {
      const by = this.time(before.x) - this.time(at.x);
      this.show(this.view.from + by, this.view.to + by);
      Object.assign(before, at);
    } else if (Math.abs(at.x - before.began.x) > 3) {
      this.#select(before.began, at);
    }
  }

  #pinch(id, at) {
    const other = [...this.pointers].find(([known]) => known !== id)[1];
    const before = this.pointers.get(id);
    const apart = (x) => Math.max(20, Math.abs(x - other.x));
    this.zoom(apart(before.x) / apart(at.x), (at.x + other.x) / 2);
    Object.assign(before, at);
  }

  #up(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    const at = this.#inside(event);
    if (!pointer || event.type === "pointercancel") return;
    const isClick = Math.abs(at.x - pointer.began.x) <= 3 && Math.abs(at.y - pointer.began.y) <= 6;
    if (isClick) this.#click(at);
    else if (!pointer.touch) this.#sums();
  }

  #click({ x, y }) {
    const found = rowAt(this.view.layout, y);
    if (!found) return;
    if (x < this.view.gutter) this.toggle(found.row.place);
    else this.#pick(found, x, y);
  }

  /** Select what was clicked; nothing where nothing is. */
  #pick({ row, lane }, x, y) {
    const span = this.#at(row, lane, x, y);
    if (!span) {
      this.#select(null);
      return;
    }
    const place = this.view.layout.rows.indexOf(row);
    this.view.selection = { from: span.from, to: span.to, first: place, last: place };
    this.part("said").textContent = this.describe(span, row, lane.lane).replaceAll("\n", ", ");
    this.#sums();
    this.redraw();
  }

  #at(row, lane, x, y) {
    const rank = this.model.ranks[row.place];
    const track = lane.lane === "calls" ? Math.floor((y - lane.y) / CALL_HEIGHT) : undefined;
    return this.model.at(rank, lane.lane === "calls" ? "host" : lane.lane, this.time(x), track);
  }

  #select(began, at) {
    if (!began) {
      this.view.selection = null;
    } else {
      const { rows } = this.view.layout;
      const places = [began, at].map(({ y }) => rows.indexOf(rowAt(this.view.layout, y)?.row ?? rows[0]));
      const times = [began, at].map(({ x }) => this.time(Math.max(this.view.gutter, x)));
      this.view.selection = {
        from: Math.min(...times),
        to: Math.max(...times),
        first: Math.max(0, Math.min(...places)),
        last: Math.max(0, ...places),
      };
    }
    if (!began) this.#sums();
    this.redraw();
  }

  #hover(at, event) {
    const found = at.x >= this.view.gutter ? rowAt(this.view.layout, at.y) : null;
    const span = found && this.#at(found.row, found.lane, at.x, at.y);
    this.#tip(span ? this.describe(span, found.row, found.lane.lane) : null, event);
  }

  #tip(text, event) {
    const tip = this.part("tip");
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = this.part("box").getBoundingClientRect();
    const x = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, x)}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  }

  #search(text) {
    this.hits = text ? this.model.find(text, 5000) : [];
    this.hit = -1;
    this.view.wanted = text ? this.model.wanted(text) : null;
    this.view.hit = null;
    const count = this.hits.length;
    const said = count ? `${count}${count === 5000 ? " or more" : ""} places; Enter goes to the next.` : "Nothing is called so here.";
    this.part("said").textContent = text ? said : HELP;
    this.redraw();
  }

  #next(by) {
    if (!this.hits?.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    const { place, lane, from, to } = this.hits[this.hit];
    const length = Math.max((to - from) * 8, (this.view.to - this.view.from) / 4);
    this.opened.add(place);
    this.show((from + to - length) / 2, (from + to + length) / 2);
    this.layout();
    this.resize();
    const row = this.view.layout.rows[place];
    const found = row.lanes.find((known) => known.lane === lane) ?? row.lanes[0];
    this.view.hit = { left: from, right: to, y: found.y, height: found.height };
    this.scroll.scrollTop = row.top - 8;
    this.part("said").textContent = `${this.hit + 1} of ${this.hits.length}: rank ${this.model.ranks[place].rank}, ${lane}, ${duration(to - from)}.`;
  }
}

async function startTimeline(section) {
  const said = section.querySelector(".tl-said");
  try {
    const data = await unpacked(document.getElementById("timeline-data").textContent.trim());
    section.timeline = new Timeline(section, new Model(data));
    said.textContent = HELP;
    section.querySelector(".tl-box").dataset.ready = "yes";
    section.dispatchEvent(new Event("timeline-ready"));
  } catch (error) {
    said.textContent = `The timeline cannot be drawn here (${error.message}); a newer browser can.`;
  }
}

const timelineSection = document.querySelector("section.timeline");
if (timelineSection) startTimeline(timelineSection);
