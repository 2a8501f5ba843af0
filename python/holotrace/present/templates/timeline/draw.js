// Draws the part of the timeline that is in view. What has more pieces than the screen has columns is drawn column by
// column into one image, so that a frame costs what the screen is large, whatever the job is.

const EXACT_PIXELS = 24;
const LABEL_PIXELS = 34;

/** One of five tones for a name, so that neighbours can be told apart. */
const TONES = 5;
const toneOf = (name) => (Math.imul(name, 0x9e3779b1) >>> 28) % TONES;

class Painter {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.model = model;
    this.context = canvas.getContext("2d", { alpha: false });
    this.theme();
  }

  /** Take the colours of the page as they are now. */
  theme() {
    const style = getComputedStyle(this.canvas);
    const of = (name) => style.getPropertyValue(name).trim();
    this.colors = { text: of("--text"), quiet: of("--quiet"), line: of("--line"), card: of("--card"), mark: of("--critical") };
    this.colors.accent = of("--accent");
    this.colors.path = of("--tl-path");
    this.colors.lanes = {};
    for (const lane of this.model.lanes) this.colors.lanes[lane] = of(`--tl-${lane}`);
    this.back = this.#channels(this.colors.card);
    this.palette = new Map();
    this.fontFamily = of("--sans") || "sans-serif";
  }

  #channels(color) {
    this.context.fillStyle = "#000";
    this.context.fillStyle = color;
    const hex = this.context.fillStyle;
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  }

  /** 64 strengths of a lane's colour in each of its tones, as pixels of an image. */
  #shades(lane) {
    let tones = this.palette.get(lane);
    if (!tones) {
      tones = Array.from({ length: TONES }, (_, tone) => this.#strengths(this.#toned(lane, tone)));
      this.palette.set(lane, tones);
    }
    return tones;
  }

  #strengths(color) {
    return Uint32Array.from({ length: 65 }, (_, i) => {
      const part = i === 0 ? 0 : 0.2 + (0.8 * i) / 64;
      const mixed = color.map((value, c) => Math.round(this.back[c] + (value - this.back[c]) * part));
      return (255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
    });
  }

  #toned(lane, tone) {
    const by = (tone - 2) * 0.09;
    return this.#channels(this.colors.lanes[lane]).map((value) =>
      Math.round(Math.min(255, Math.max(0, by > 0 ? value + (255 - value) * by : value * (1 + by)))),
    );
  }

  resize(width, height) {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.image = null;
  }

  /** One frame. `view`: from, to, top (scrolled so far), layout, gutter, wanted, selection, hovered. */
  draw(view) {
    const { context, ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.#pieces(view);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `11px ${this.fontFamily}`;
    context.textBaseline = "middle";
    const scale = (this.width - view.gutter) / (view.to - view.from);
    const x = (time) => view.gutter + (time - view.from) * scale;
    this.events = 0;
    this.boxes = new Map();
    this.written = [];
    context.save();
    context.beginPath();
    context.rect(view.gutter, AXIS, this.width - view.gutter, this.height - AXIS);
    context.clip();
    for (const row of view.layout.rows) {
      if (row.bottom - view.top < 0 || row.top - view.top > this.height - AXIS) continue;
      this.#exact(view, row, x);
    }
    this.#flush();
    this.#meetings(view, x);
    this.#marks(view, x);
    this.#selection(view, x);
    context.restore();
    this.#labels(view);
    this.#axis(view, x);
  }

  #pieces(view) {
    const left = Math.round(view.gutter * this.ratio);
    const width = Math.max(1, this.canvas.width - left);
    const height = this.canvas.height;
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.room = { busy: new Float32Array(width), most: new Float32Array(width), name: new Uint32Array(width) };
      this.line = new Uint32Array(width);
    }
    const [r, g, b] = this.back;
    this.pixels.fill((255 << 24) | (b << 16) | (g << 8) | r);
    for (const row of view.layout.rows) {
      if (row.bottom - view.top < 0 || row.top - view.top > this.height) continue;
      const rank = this.model.ranks[row.place];
      for (const { lane, y, height: high } of row.lanes) this.#lane(view, rank, lane, y, high, width);
    }
    this.context.fillStyle = this.colors.card;
    this.context.fillRect(0, 0, left, height);
    this.context.putImageData(this.image, left, 0);
  }

  #lane(view, rank, lane, y, high, width) {
    const runs = this.model.runs(rank, lane, view.from, view.to);
    if (!runs) return;
    const { busy, name } = this.room;
    this.model.columns(runs, view.from, (view.to - view.from) / width, width, this.room);
    // Looked up once for each lane: once for each pixel took longer than all else of a frame.
    const tones = this.#shades(lane);
    const empty = tones[0][0];
    for (let x = 0; x < width; x++) {
      if (busy[x] <= 0) {
        this.line[x] = empty;
        continue;
      }
      const strength = Math.max(1, Math.min(64, Math.round(busy[x] * 64)));
      const dim = view.wanted && !view.wanted[name[x]];
      this.line[x] = tones[toneOf(name[x])][dim ? Math.ceil(strength / 10) : strength];
    }
    const first = Math.max(0, Math.round((AXIS + y - view.top) * this.ratio));
    const last = Math.min(this.image.height, Math.round((AXIS + y + high - view.top) * this.ratio));
    for (let line = first; line < last; line++) this.pixels.set(this.line, line * width);
  }

  #exact(view, row, x) {
    const rank = this.model.ranks[row.place];
    const { context } = this;
    const steps = row.lanes.find(({ lane }) => lane === "step");
    if (steps) this.#steps(view, rank, steps, x);
    this.#path(view, rank, row, x);
    for (const window of rank.windows) {
      const [left, right] = [x(window.from), x(window.to)];
      if (right < view.gutter || left > this.width || right - left < EXACT_PIXELS) continue;
      for (const { lane, y, height } of row.lanes) {
        if (["idle", "step", "host", "path"].includes(lane)) continue;
        context.fillStyle = this.colors.card;
        context.fillRect(left, AXIS + y - view.top, right - left, height);
      }
      this.#window(view, row, window, x);
      if (window.isLive) continue;
      context.strokeStyle = this.colors.quiet;
      context.setLineDash([3, 3]);
      context.strokeRect(left + 0.5, AXIS + row.top - view.top - 1.5, right - left, row.bottom - row.top - 2);
      context.setLineDash([]);
    }
  }

  /** Where the critical path of the job is on this rank; parts closer than a pixel are one. */
  #path(view, rank, row, x) {
    const place = row.lanes.find(({ lane }) => lane === "path");
    if (!place) return;
    this.context.fillStyle = this.colors.path;
    let reached = -1;
    for (const { from, to } of rank.path) {
      if (to < view.from || from > view.to) continue;
      const left = Math.max(view.gutter, reached, x(from));
      const right = Math.min(this.width, Math.max(x(to), x(from) + 0.7));
      if (right <= left) continue;
      this.context.fillRect(left, AXIS + place.y - view.top, right - left, place.height);
      reached = right;
    }
  }

  #steps(view, rank, { y, height }, x) {
    const { context } = this;
    rank.steps.forEach((step, i) => {
      const [left, right] = [Math.max(view.gutter, x(step.from)), Math.min(this.width, x(step.to))];
      if (right <= left) return;
      context.globalAlpha = i % 2 ? 0.55 : 0.85;
      context.fillStyle = this.colors.lanes.step;
      context.fillRect(left, AXIS + y - view.top, right - left, height);
      context.globalAlpha = 1;
      this.#text(`step ${step.name}`, left, AXIS + y - view.top + height / 2, right - left, this.colors.text);
    });
  }

  /** Events within their window: what goes on beyond it may be as deep as others there. */
  #window(view, row, { from, to, events }, x) {
    const known = new Map(row.lanes.map((each) => [each.lane, each]));
    const places = this.model.lanes.map((lane) => known.get(lane === "host" ? "calls" : lane));
    for (let i = 0; i < events.from.length; i++) {
      const left = Math.max(view.gutter, x(Math.max(from, events.from[i])));
      const right = Math.min(this.width, x(Math.min(to, events.to[i])));
      if (right < view.gutter || left > this.width) continue;
      const lane = events.lane[i];
      const isCall = this.model.lanes[lane] === "host";
      const place = places[lane];
      if (!place) continue;
      const y = AXIS + place.y - view.top + (isCall ? events.track[i] * CALL_HEIGHT : 0);
      const height = isCall ? CALL_HEIGHT - 1 : place.height;
      this.#box(view, lane, events.name[i], left, y, Math.max(0.6, right - left - 0.5), height);
    }
  }

  /** Boxes of one colour are drawn together, since to change the colour takes longer than to fill a box. */
  #box(view, lane, name, left, y, width, height) {
    this.events++;
    const dim = Boolean(view.wanted && !view.wanted[name]);
    const tone = toneOf(name);
    const key = 2 * (TONES * lane + tone) + (dim ? 1 : 0);
    let group = this.boxes.get(key);
    if (!group) {
      const [r, g, b] = this.#toned(this.model.lanes[lane], tone);
      group = { color: `rgb(${r} ${g} ${b})`, alpha: dim ? 0.15 : 1, places: [] };
      this.boxes.set(key, group);
    }
    group.places.push(left, y, width, height);
    if (!dim && height >= 9 && width >= LABEL_PIXELS) this.written.push({ name, left, y: y + height / 2, width });
  }

  #flush() {
    const { context } = this;
    for (const { color, alpha, places } of this.boxes.values()) {
      context.fillStyle = color;
      context.globalAlpha = alpha;
      for (let i = 0; i < places.length; i += 4) {
        context.fillRect(places[i], places[i + 1], places[i + 2], places[i + 3]);
      }
    }
    context.globalAlpha = 1;
    for (const { name, left, y, width } of this.written) this.#text(this.model.names[name], left, y, width, "#fff");
  }

  /** A text that begins in a box and is cut where that ends. */
  #text(text, left, y, width, color) {
    if (width < LABEL_PIXELS) return;
    const room = Math.floor((width - 6) / 5.6);
    this.context.fillStyle = color;
    this.context.fillText(text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text, left + 3, y + 0.5);
  }

  /** Who came last to a collective, and until when the others waited for it; whiskers say how sure the clocks are. */
  #meetings(view, x) {
    const { context } = this;
    const middle = new Map();
    for (const row of view.layout.rows) {
      const lane = row.lanes.find((known) => known.lane === "communication");
      if (lane) middle.set(this.model.ranks[row.place].rank, AXIS + lane.y + lane.height / 2 - view.top);
    }
    for (const meeting of this.model.meetings) {
      const last = meeting.came.length - 1;
      const come = meeting.came[last];
      const first = meeting.came[0];
      if (x(come) - x(first) < 3 || x(come) < view.gutter || x(first) > this.width) continue;
      const from = middle.get(meeting.ranks[last]);
      context.lineWidth = 1;
      for (let i = 0; i <= last; i++) {
        const y = middle.get(meeting.ranks[i]);
        if (y === undefined || from === undefined || y < AXIS - 40 || y > this.height + 40) continue;
        context.strokeStyle = this.colors.text;
        context.globalAlpha = 0.75;
        if (i !== last) this.#arrow(x(come), from, x(meeting.came[i]), y);
        const rank = this.model.ranks[this.model.place.get(meeting.ranks[i])];
        if (rank?.uncertain) this.#whisker(x(meeting.came[i] - rank.uncertain), x(meeting.came[i] + rank.uncertain), y);
        context.globalAlpha = 1;
      }
    }
  }

  #arrow(x0, y0, x1, y1) {
    const { context } = this;
    context.beginPath();
    // From the one that came last along the time that the other waited.
    context.moveTo(x0, y0);
    context.lineTo(x0, y1);
    context.moveTo(x1, y1);
    context.lineTo(x0, y1);
    context.moveTo(x1 + 4, y1 - 3);
    context.lineTo(x1, y1);
    context.lineTo(x1 + 4, y1 + 3);
    context.stroke();
  }

  #whisker(left, right, y) {
    const { context } = this;
    context.strokeStyle = this.colors.mark;
    context.beginPath();
    context.moveTo(left, y - 3);
    context.lineTo(left, y + 3);
    context.moveTo(left, y);
    context.lineTo(right, y);
    context.moveTo(right, y - 3);
    context.lineTo(right, y + 3);
    context.stroke();
  }

  #marks(view, x) {
    const { context } = this;
    for (const mark of this.model.marks) {
      const row = view.layout.rows.find(({ place }) => this.model.ranks[place].rank === mark.rank);
      if (mark.at === null || !row) continue;
      const at = Math.round(x(mark.at)) + 0.5;
      context.strokeStyle = this.colors.mark;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(at, AXIS + row.top - view.top);
      context.lineTo(at, AXIS + row.bottom - view.top - 4);
      context.stroke();
      context.lineWidth = 1;
    }
  }

  #selection(view, x) {
    const { context } = this;
    const chosen = view.selection;
    if (chosen) {
      const top = AXIS + view.layout.rows[chosen.first].top - view.top - 2;
      const bottom = AXIS + view.layout.rows[chosen.last].bottom - view.top - 2;
      context.fillStyle = this.colors.accent;
      context.globalAlpha = 0.14;
      context.fillRect(x(chosen.from), top, x(chosen.to) - x(chosen.from), bottom - top);
      context.globalAlpha = 1;
      context.strokeStyle = this.colors.accent;
      context.strokeRect(x(chosen.from) + 0.5, top + 0.5, Math.max(1, x(chosen.to) - x(chosen.from)), bottom - top);
    }
    if (view.hit) {
      context.strokeStyle = this.colors.accent;
      context.lineWidth = 2;
      const { left, right, y, height } = view.hit;
      context.strokeRect(x(left), AXIS + y - view.top, Math.max(2, x(right) - x(left)), height);
      context.lineWidth = 1;
    }
  }

  #labels(view) {
    const { context } = this;
    const isNarrow = view.gutter < 80;
    for (const row of view.layout.rows) {
      const top = AXIS + row.top - view.top;
      if (top > this.height || AXIS + row.bottom - view.top < AXIS) continue;
      context.fillStyle = this.colors.text;
      const rank = this.model.ranks[row.place].rank;
      const sign = row.isOpen ? "▾" : "▸";
      context.fillText(`${sign} ${isNarrow ? rank : `Rank ${rank}`}`, 4, top + (row.isOpen ? 8 : (row.bottom - row.top - 5) / 2));
      context.fillStyle = this.colors.quiet;
      if (row.isOpen && !isNarrow) {
        context.textAlign = "right";
        for (const { lane, y, height } of row.lanes) {
          const word = { communication: "comm", calls: "calls" }[lane] ?? lane;
          context.fillText(word, view.gutter - 6, AXIS + y - view.top + Math.min(height, 16) / 2);
        }
        context.textAlign = "left";
      }
      context.fillStyle = this.colors.line;
      context.fillRect(0, AXIS + row.bottom - view.top - 3, this.width, 1);
    }
  }

  #axis(view, x) {
    const { context } = this;
    context.fillStyle = this.colors.card;
    context.fillRect(0, 0, this.width, AXIS);
    const length = view.to - view.from;
    const step = tick(length, Math.max(2, (this.width - view.gutter) / 110));
    for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
      context.fillStyle = this.colors.line;
      context.fillRect(Math.round(x(time)), AXIS - 7, 1, 7);
      context.fillStyle = this.colors.quiet;
      const label = moment(time, length);
      if (x(time) + 50 < this.width) context.fillText(label, x(time) + 3, AXIS - 8);
    }
    context.fillStyle = this.colors.line;
    context.fillRect(0, AXIS - 1, this.width, 1);
    this.model.marks.forEach((mark, i) => {
      const at = x(mark.at ?? NaN);
      if (!(at >= view.gutter && at <= this.width)) return;
      context.fillStyle = this.colors.mark;
      context.beginPath();
      context.moveTo(at - 7, 1);
      context.lineTo(at + 7, 1);
      context.lineTo(at, 13);
      context.fill();
      context.fillStyle = this.colors.card;
      context.textAlign = "center";
      context.font = `bold 9px ${this.fontFamily}`;
      context.fillText(String(i + 1), at, 5.5);
      context.font = `11px ${this.fontFamily}`;
      context.textAlign = "left";
    });
  }
}
