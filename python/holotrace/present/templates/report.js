"use strict";
(() => {
  const content = (id) => JSON.parse(document.getElementById(id).textContent);

  window.addEventListener("beforeprint", () => {
    document.querySelectorAll(".findings details").forEach((finding) => (finding.open = true));
  });

  // Characters from which on a text is cut to its first lines until one clicks at it; tables.html.j2 has the same.
  const CLIPPED = 110;
  const fill = (cell, text) => {
    if (text.length <= CLIPPED) return cell.append(text);
    const clip = document.createElement("div");
    clip.className = "clip";
    clip.tabIndex = 0;
    clip.textContent = text;
    return cell.append(clip);
  };

  function enhance(box) {
    const data = content("data-" + box.dataset.table);
    const body = box.querySelector("tbody");
    const heads = [...box.querySelectorAll("thead th")];
    const filter = box.querySelector("input");
    const count = box.querySelector(".count");
    const more = box.querySelector(".show-all");
    const writers = (columns) => columns.map((column) => {
      if (!column.number) return (value) => value;
      const format = new Intl.NumberFormat("en-US", {
        minimumFractionDigits: column.decimals,
        maximumFractionDigits: column.decimals,
        useGrouping: column.grouped,
      });
      const least = 0.5 / 10 ** column.decimals;
      // What is rounded to nothing has no sign.
      const written = (number) => format.format(Math.abs(number) < least ? 0 : number);
      return (value) => {
        if (value === null) return "\u2013";
        return typeof value === "string" ? value : written(value * column.factor);
      };
    });
    const write = writers(data.columns);
    // Rows that a row opens to, by its place.
    const inner = new Map();
    if (data.inner) {
      for (const row of data.inner.rows) inner.set(row[0], [...(inner.get(row[0]) || []), row]);
    }
    const opened = new Set();

    function innerLine(i) {
      const writeInner = writers(data.inner.columns);
      const line = document.createElement("tr");
      line.className = "inner";
      const place = line.insertCell();
      place.colSpan = heads.length;
      const table = document.createElement("table");
      const head = table.createTHead().insertRow();
      data.inner.heads.forEach((text, c) => {
        const cell = document.createElement("th");
        cell.scope = "col";
        cell.className = data.inner.columns[c].kind;
        cell.textContent = text;
        head.append(cell);
      });
      const rows = table.createTBody();
      for (const row of inner.get(i)) {
        const each = rows.insertRow();
        writeInner.forEach((text, c) => {
          const cell = each.insertCell();
          cell.className = data.inner.columns[c].kind;
          fill(cell, text(row[c + 1]));
        });
      }
      place.append(table);
      return line;
    }

    function opener(i) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "open";
      button.setAttribute("aria-expanded", opened.has(i));
      button.setAttribute("aria-label", "Ranks");
      button.addEventListener("click", () => {
        opened[opened.has(i) ? "delete" : "add"](i);
        show();
        body.querySelector('[data-row="' + i + '"] button').focus();
      });
      return button;
    }
    const words = new Intl.Collator("en", { numeric: true });
    const texts = data.rows.map((row) => row.map((value, i) => write[i](value)).join("\n").toLowerCase());
    let order = data.rows.map((_, i) => i);
    let limit = data.shown;

    function show() {
      const wanted = (filter ? filter.value : "").toLowerCase().split(/\s+/).filter(Boolean);
      const kept = order.filter((i) => wanted.every((word) => texts[i].includes(word)));
      const rows = kept.slice(0, limit).flatMap((i) => {
        const line = document.createElement("tr");
        line.dataset.row = i;
        data.rows[i].forEach((value, c) => {
          const cell = document.createElement("td");
          cell.className = data.columns[c].kind;
          fill(cell, write[c](value));
          if (!c && inner.has(i)) cell.prepend(opener(i));
          line.append(cell);
        });
        return opened.has(i) ? [line, innerLine(i)] : [line];
      });
      body.replaceChildren(...rows);
      if (!rows.length) {
        const cell = document.createElement("td");
        cell.colSpan = heads.length;
        cell.className = "empty";
        cell.textContent = "No row has these words.";
        const line = document.createElement("tr");
        line.append(cell);
        body.append(line);
      }
      tell(kept.length);
    }

    function tell(found) {
      const number = (n) => n.toLocaleString("en-US");
      const all = found === data.rows.length;
      if (count) count.textContent = number(found) + (all ? " rows" : " of " + number(data.rows.length) + " rows");
      if (more) {
        more.parentElement.hidden = found <= limit;
        more.textContent = "Show all " + number(found) + " rows";
      }
    }

    function sort(head, index) {
      const down = head.getAttribute("aria-sort") === "descending";
      const up = head.getAttribute("aria-sort") === "ascending";
      const number = data.columns[index].number;
      // Numbers are wanted largest first, names from A to Z.
      const descending = number ? !down : up;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const sign = descending ? -1 : 1;
      order = data.rows.map((_, i) => i).sort((a, b) => {
        const x = data.rows[a][index];
        const y = data.rows[b][index];
        if (x === null || y === null) return (x === null) - (y === null) || a - b;
        return sign * (number ? x - y : words.compare(x, y)) || a - b;
      });
      show();
    }

    heads.forEach((head, index) => head.querySelector("button").addEventListener("click", () => sort(head, index)));
    if (filter) filter.addEventListener("input", show);
    if (more) {
      more.addEventListener("click", () => {
        limit = data.rows.length;
        show();
      });
    }
    if (data.inner) show();
    else tell(data.rows.length);
  }

  document.querySelectorAll(".table").forEach(enhance);

  // The menu says where the reader is, and shows that part of itself.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const menu = document.querySelector("nav");
  const seen = new IntersectionObserver(
    (entries) =>
      entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
        links.forEach((link) => link.removeAttribute("aria-current"));
        const link = links.get(entry.target.id);
        if (!link) return;
        link.setAttribute("aria-current", "true");
        menu.scrollTo({ left: link.offsetLeft - menu.clientWidth / 2 + link.clientWidth / 2 });
      }),
    { rootMargin: "-20% 0px -75% 0px" },
  );
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
})();
