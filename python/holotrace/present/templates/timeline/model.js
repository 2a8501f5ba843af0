// What the timeline shows, as arrays that are quick to look through: runs of pieces per lane, and single events.

const HOST = 1; // its number among the lanes

/** Inflate the data of the page: base64 of a zlib stream of JSON. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The first place in sorted `values` that is above `limit`. */
function firstAbove(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Runs of pieces as spans of time; see `_runs` of payload.py. */
function decodedRuns([before, count, level, name], start, piece) {
  const runs = {
    from: new Float64Array(count.length),
    to: new Float64Array(count.length),
    level: Uint16Array.from(level),
    name: Uint32Array.from(name),
  };
  let at = 0;
  for (let i = 0; i < count.length; i++) {
    at += before[i];
    runs.from[i] = start + at * piece;
    at += count[i];
    runs.to[i] = start + at * piece;
  }
  return runs;
}

function decodedEvents([lane, name, start, length, track], origin) {
  const from = Float64Array.from(start, (value) => origin + value);
  return { lane, name, track, from, to: Float64Array.from(length, (value, i) => from[i] + value) };
}

/** Exact events between two times; `deepest` is how many levels of calls of the host are among them. */
function decodedWindow(window) {
  const events = decodedEvents(window.events, window.start);
  const levels = events.track.filter((_, i) => events.lane[i] === HOST);
  return { from: window.start, to: window.end, events, deepest: 1 + Math.max(-1, ...levels) };
}

class Model {
  constructor(data) {
    Object.assign(this, { end: data.end, names: data.names, levels: data.levels, lanes: data.lanes });
    Object.assign(this, { leftOut: data.leftOut, marks: data.marks, meetings: data.meetings });
    this.ranks = data.ranks.map((rank) => this.#rank(rank));
    this.place = new Map(this.ranks.map((rank, i) => [rank.rank, i]));
    data.windows.forEach((window) => this.#add(window));
    this.#addPath(data.path);
    const starts = this.ranks.map((rank) => rank.start);
    this.begin = Math.min(0, ...starts);
    this.piece = Math.max(1, ...this.ranks.map((rank) => rank.piece));
  }

  #rank(rank) {
    const lanes = {};
    for (const [lane, runs] of Object.entries(rank.pieces)) lanes[lane] = decodedRuns(runs, rank.start, rank.piece);
    const steps = rank.steps.map(([name, from, length]) => ({ name, from, to: from + length }));
    return { ...rank, lanes, steps, windows: [] };
  }

  #add(window) {
    const place = this.place.get(window.rank);
    if (place === undefined) return;
    this.ranks[place].windows.push(decodedWindow(window));
  }

  /** The parts of the critical path that each rank has, in order of time. */
  #addPath({ kinds, parts: [rank, bound, name, start, length] }) {
    for (const known of this.ranks) known.path = [];
    start.forEach((from, i) => {
      const known = this.ranks[this.place.get(rank[i])];
      known?.path.push({ from, to: from + length[i], name: name[i], bound: kinds[bound[i]] });
    });
  }

  /** Take what a server knows of a rank between two times in place of the page's own. */
  refine(place, detail) {
    const rank = this.ranks[place];
    const numbers = detail.names.map((name) => this.number(name));
    const lanes = {};
    for (const [lane, [before, count, level, name]] of Object.entries(detail.pieces)) {
      const named = name.map((number) => numbers[number]);
      lanes[lane] = decodedRuns([before, count, level, named], detail.start, detail.piece);
    }
    rank.known ??= rank.windows;
    rank.fine = { from: detail.start, to: detail.end, lanes, piece: detail.piece, isExact: detail.events !== null };
    rank.windows = rank.known;
    if (detail.events) {
      const [lane, name, ...rest] = detail.events;
      const events = [lane, name.map((number) => numbers[number]), ...rest];
      rank.windows = [{ ...decodedWindow({ start: detail.start, end: detail.end, events }), isLive: true }];
    }
  }

  /** The number of a name that a server told; new ones are added. */
  number(name) {
    this.numbers ??= new Map(this.names.map((known, i) => [known, i]));
    if (!this.numbers.has(name)) this.numbers.set(name, this.names.push(name) - 1);
    return this.numbers.get(name);
  }

  /** The runs of a lane that tell most of a view. */
  runs(rank, lane, from, to) {
    const fine = rank.fine;
    const known = fine && fine.from <= from && fine.to >= to ? fine.lanes : rank.lanes;
    return known[lane];
  }

  /**
   * How busy each of `width` columns of a view is, from 0 to 1, and what takes most of it.
   * `busy` and `name` are filled; `most` is room to work in.
   */
  columns(runs, from, perPixel, width, { busy, name, most }) {
    busy.fill(0, 0, width);
    most.fill(0, 0, width);
    const until = from + width * perPixel;
    for (let i = firstAbove(runs.to, from); i < runs.from.length && runs.from[i] < until; i++) {
      const left = Math.max(0, (runs.from[i] - from) / perPixel);
      const right = Math.min(width, (runs.to[i] - from) / perPixel);
      const share = runs.level[i] / this.levels;
      for (let x = Math.floor(left); x < right; x++) {
        const covered = share * (Math.min(right, x + 1) - Math.max(left, x));
        busy[x] += covered;
        if (covered > most[x]) {
          most[x] = covered;
          name[x] = runs.name[i];
        }
      }
    }
  }

  /** What is in a lane at a time: an exact event, the deepest that is there, or a run of pieces; else nothing. */
  at(rank, lane, time, track) {
    if (lane === "path") {
      const part = rank.path.find((known) => known.from <= time && time < known.to);
      return part ? { ...part, name: `${this.names[part.name]} (bound by ${part.bound})`, exact: true } : null;
    }
    const window = rank.windows.find((known) => known.from <= time && time < known.to);
    const number = this.lanes.indexOf(lane);
    if (window) {
      const { events } = window;
      let found = -1;
      for (let i = 0; i < events.from.length; i++) {
        const fits = events.lane[i] === number && (track === undefined || events.track[i] === track);
        if (fits && events.from[i] <= time && time < events.to[i]) found = i;
      }
      if (found >= 0) {
        return { name: this.names[events.name[found]], from: events.from[found], to: events.to[found], exact: true };
      }
      if (lane !== "idle" && track === undefined) return null;
    }
    if (lane === "step") {
      const step = rank.steps.find((known) => known.from <= time && time < known.to);
      return step ? { ...step, name: `step ${step.name}`, exact: true } : null;
    }
    if (track !== undefined) return null;
    const runs = this.runs(rank, lane, time, time);
    if (!runs) return null;
    const i = firstAbove(runs.to, time);
    if (i >= runs.from.length || runs.from[i] > time) return null;
    const share = runs.level[i] / this.levels;
    return { name: this.names[runs.name[i]], from: runs.from[i], to: runs.to[i], share, exact: false };
  }

  /** How long ranks were active between two times, by lane, and by name within. */
  sums(ranks, from, to) {
    const sums = new Map();
    for (const rank of ranks) {
      for (const lane of this.lanes.slice(1)) {
        const runs = this.runs(rank, lane, from, to);
        if (!runs) continue;
        const sum = sums.get(lane) ?? { ns: 0, names: new Map() };
        for (let i = firstAbove(runs.to, from); i < runs.from.length && runs.from[i] < to; i++) {
          const covered = Math.min(to, runs.to[i]) - Math.max(from, runs.from[i]);
          const ns = (covered * runs.level[i]) / this.levels;
          sum.ns += ns;
          sum.names.set(runs.name[i], (sum.names.get(runs.name[i]) ?? 0) + ns);
        }
        sums.set(lane, sum);
      }
    }
    return sums;
  }

  /** Spans whose name contains a text, in order of time: one per run or event. */
  find(text, limit) {
    const wanted = this.wanted(text);
    const found = [];
    this.ranks.forEach((rank, place) => {
      for (const [lane, runs] of Object.entries(rank.lanes)) {
        for (let i = 0; i < runs.from.length && found.length < limit; i++) {
          if (wanted[runs.name[i]]) found.push({ place, lane, from: runs.from[i], to: runs.to[i] });
        }
      }
      for (const { events } of rank.windows) {
        for (let i = 0; i < events.from.length && found.length < limit; i++) {
          if (!wanted[events.name[i]]) continue;
          found.push({ place, lane: this.lanes[events.lane[i]], from: events.from[i], to: events.to[i] });
        }
      }
    });
    return found.sort((a, b) => a.from - b.from || a.place - b.place);
  }

  /** For each name whether it contains a text, whatever its case. */
  wanted(text) {
    const lower = text.toLowerCase();
    return Uint8Array.from(this.names, (name) => (name.toLowerCase().includes(lower) ? 1 : 0));
  }
}
