// What a server adds to the timeline: every event of what is looked at, and the way to Perfetto.

const ASK_AFTER_MS = 120;
const MOST_RANKS = 24;
const ALIVE_MS = 60_000;
const PERFETTO = "https://ui.perfetto.dev";

/** Ask for what is in view and not known finely enough, a margin around it included. */
class Refiner {
  constructor(timeline) {
    this.timeline = timeline;
    this.waiting = new Set();
    timeline.refine = () => this.later();
    this.later();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), ASK_AFTER_MS);
  }

  /** Ranks in sight whose pieces are wider than what one sees. */
  coarse() {
    const { view, model, painter } = this.timeline;
    const finest = ((view.to - view.from) / (painter.width - view.gutter)) * 1.5;
    return view.layout.rows
      .filter((row) => row.bottom > view.top && row.top < view.top + painter.height)
      .filter(({ place }) => {
        const { fine, piece } = model.ranks[place];
        const covers = fine && fine.from <= view.from && fine.to >= view.to;
        return covers ? !fine.isExact && fine.piece > finest : piece > finest;
      })
      .slice(0, MOST_RANKS);
  }

  async ask() {
    const { view, model, painter } = this.timeline;
    const length = view.to - view.from;
    const range = { from: Math.floor(view.from - length / 2), to: Math.ceil(view.to + length / 2) };
    const pieces = Math.ceil((painter.width - view.gutter) * 2 * painter.ratio);
    for (const { place } of this.coarse()) {
      const { rank } = model.ranks[place];
      const key = `${rank} ${range.from} ${range.to}`;
      if (this.waiting.has(key)) continue;
      this.waiting.add(key);
      try {
        const answer = await fetch(`tile?${new URLSearchParams({ rank, ...range, pieces })}`);
        if (answer.ok) model.refine(place, await answer.json());
      } catch {
        this.timeline.part("said").textContent = "The server has stopped; the page shows what it was given.";
        return;
      }
      this.waiting.delete(key);
      this.timeline.say();
      this.timeline.redraw();
      // What was looked at meanwhile goes first.
      if (view.from < range.from || view.to > range.to) break;
    }
  }
}

/** Hand the merged trace to Perfetto's page, which says PONG when it listens. */
async function openInPerfetto(timeline) {
  const said = timeline.part("said");
  const other = window.open(PERFETTO);
  if (!other) {
    said.textContent = "The browser opened no window; allow this page to.";
    return;
  }
  said.textContent = "Merging the traces of all ranks for Perfetto…";
  const answer = await fetch("trace");
  if (!answer.ok) {
    said.textContent = await answer.text();
    return;
  }
  const buffer = await answer.arrayBuffer();
  const ping = setInterval(() => other.postMessage("PING", PERFETTO), 100);
  const stop = setTimeout(() => {
    clearInterval(ping);
    said.textContent = "Perfetto did not answer; it needs a way to the internet.";
  }, 60_000);
  window.addEventListener("message", function answered(event) {
    if (event.source !== other || event.origin !== PERFETTO || event.data !== "PONG") return;
    window.removeEventListener("message", answered);
    clearInterval(ping);
    clearTimeout(stop);
    other.postMessage({ perfetto: { buffer, title: document.title, fileName: "timeline.json.gz" } }, PERFETTO);
    said.textContent = "Perfetto has the merged trace.";
  });
}

setInterval(() => fetch("alive").catch(() => {}), ALIVE_MS);
if (timelineSection) {
  timelineSection.addEventListener("timeline-ready", () => {
    const { timeline } = timelineSection;
    timeline.refiner = new Refiner(timeline);
    timelineSection.querySelector(".tl-perfetto").addEventListener("click", () => openInPerfetto(timeline));
  });
}
