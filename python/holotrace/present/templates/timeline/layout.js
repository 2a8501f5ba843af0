// Which rank and lane is where: ranks that are opened have a row per lane, others a few narrow ones.

const GUTTER = { wide: 116, narrow: 58 };
const AXIS = 30;
const CALL_HEIGHT = 13;
const OPEN = { step: 15, host: 17, compute: 20, communication: 20, copy: 10, idle: 15 };
const CLOSED = { compute: 0.46, communication: 0.3, idle: 0.24 };
const GAP = { open: 10, closed: 5 };

/** Rows from top to bottom, and how high they are together; `calls` is how deep calls are shown, by place of the rank. */
function laidOut(model, opened, calls) {
  const closed = Math.min(44, Math.max(14, Math.floor(360 / model.ranks.length)));
  const rows = [];
  let y = 4;
  model.ranks.forEach((rank, place) => {
    const top = y;
    const lanes = [];
    if (opened.has(place)) {
      for (const lane of model.lanes) {
        if (lane !== "step" && !rank.lanes[lane]) continue;
        if (lane === "step" && !rank.steps.length) continue;
        lanes.push({ lane, y, height: OPEN[lane] });
        y += OPEN[lane] + 2;
        if (lane === "host" && calls.has(place)) {
          const height = calls.get(place) * CALL_HEIGHT;
          lanes.push({ lane: "calls", y, height });
          y += height + 2;
        }
      }
    } else {
      for (const [lane, share] of Object.entries(CLOSED)) {
        const height = Math.max(3, Math.round(closed * share));
        lanes.push({ lane, y, height });
        y += height + 1;
      }
    }
    if (rank.path.length) {
      const height = opened.has(place) ? 7 : 3;
      lanes.push({ lane: "path", y, height });
      y += height + 1;
    }
    y += opened.has(place) ? GAP.open : GAP.closed;
    rows.push({ place, top, bottom: y, lanes, isOpen: opened.has(place) });
  });
  return { rows, height: y };
}

/** The row at a height, and its lane; the lane above where there is a gap. */
function rowAt({ rows }, y) {
  const row = rows.find((known) => y < known.bottom) ?? rows[rows.length - 1];
  if (!row) return null;
  const lane = row.lanes.find((known) => y < known.y + known.height + 2) ?? row.lanes[row.lanes.length - 1];
  return { row, lane };
}
