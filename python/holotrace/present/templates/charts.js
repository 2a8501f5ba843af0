"use strict";
// Tells the values of a chart where one points at it, touches it, or goes along it with the arrow keys.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const line = (text, color) => {
    const row = document.createElement("div");
    if (color) {
      const mark = document.createElement("i");
      mark.style.background = color;
      row.append(mark);
    }
    row.append(text);
    return row;
  };
  const written = (one, value) =>
    value.toLocaleString("en-US", { minimumFractionDigits: one.decimals, maximumFractionDigits: one.decimals }) +
    (one.unit ? " " + one.unit : "");
  const nearest = (places, at) => {
    let best = -1;
    places.forEach((place, i) => {
      if (place !== null && (best < 0 || Math.abs(place - at) < Math.abs(places[best] - at))) best = i;
    });
    return best;
  };

  function show(rows, x, y) {
    tip.replaceChildren(...rows);
    tip.hidden = false;
    const left = Math.min(x + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = y - tip.offsetHeight - 14;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above < 8 ? y + 18 : above) + "px";
  }

  function enhance(plane) {
    const source = plane.querySelector("script");
    if (!source) return;
    let told = null;
    const area = plane.querySelector(".area");
    const cursor = document.createElement("b");
    cursor.className = "cursor";
    cursor.hidden = true;
    area.append(cursor);
    let place = -1;
    const hide = () => (tip.hidden = cursor.hidden = true);

    function atPlace(i, y) {
      const box = area.getBoundingClientRect();
      place = i;
      cursor.style.left = told.at[i] + "%";
      cursor.hidden = false;
      const rows = told.series
        .filter((one) => one.values[i] !== null)
        .map((one) => line(one.name + ": " + written(one, one.values[i]), one.color));
      show([line(String(told.labels[i])), ...rows], box.left + (box.width * told.at[i]) / 100, y);
    }

    function point(event) {
      told = told || JSON.parse(source.textContent);
      const box = area.getBoundingClientRect();
      const x = (100 * (event.clientX - box.left)) / box.width;
      const y = (100 * (box.bottom - event.clientY)) / box.height;
      if (told.permille) {
        const clip = (share, count) => Math.min(count - 1, Math.max(0, Math.floor((share / 100) * count)));
        const row = clip(100 - y, told.y.length);
        const column = clip(x, told.x.length);
        const value = told.permille[row][column];
        const said = value === null ? "nothing" : (value > 0 ? "+" : "") + (value / 10).toFixed(1) + "% off the median";
        return show([line("Rank " + told.y[row] + ", " + told.of.toLowerCase() + " " + told.x[column]), line(said)], event.clientX, event.clientY);
      }
      if (told.at) return atPlace(nearest(told.at, x), event.clientY);
      if (told.dots) {
        const far = (dot) => Math.hypot(((dot[0] - x) * box.width) / 100, ((dot[1] - y) * box.height) / 100);
        const dot = told.dots.reduce((best, one) => (far(one) < far(best) ? one : best));
        return far(dot) < 40 ? show(dot[2].split("\n").map((text) => line(text)), event.clientX, event.clientY) : hide();
      }
      const rows = told.series.slice(0, 12).flatMap((one) => {
        const i = nearest(one.at, x);
        return i < 0 || one.values[i] === null ? [] : [line(one.name + ": " + written(one, one.values[i]), one.color)];
      });
      return show(rows, event.clientX, event.clientY);
    }

    area.addEventListener("pointermove", point);
    area.addEventListener("pointerdown", point);
    area.addEventListener("pointerleave", hide);
    area.addEventListener("blur", hide);
    area.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide();
      told = told || JSON.parse(source.textContent);
      if (!step || !told.at) return;
      event.preventDefault();
      atPlace(Math.min(told.at.length - 1, Math.max(0, place + step)), area.getBoundingClientRect().top + 40);
    });
  }

  document.querySelectorAll(".plane").forEach(enhance);
})();
