// Numbers as people read them.

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** A length of time with three digits, e.g. 12.3 ms. */
function duration(ns) {
  const size = Math.abs(ns);
  const [factor, unit] = UNITS.find(([least]) => size >= least) ?? UNITS[3];
  const value = ns / factor;
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${unit === "ns" ? Math.round(value) : value.toFixed(digits)} ${unit}`;
}

/** A moment, with as many digits as a view of this length needs. */
function moment(ns, length) {
  const [factor, unit] = UNITS.find(([least]) => Math.abs(length) >= least * 2) ?? UNITS[3];
  const ms = unit === "ns" || unit === "µs" ? UNITS[2] : [factor, unit];
  const [by, name] = Math.abs(ns) < 1e6 ? ms : length < 2e6 ? UNITS[1] : [factor, unit];
  const digits = Math.max(0, Math.min(6, Math.ceil(Math.log10(by / Math.max(1, length))) + 2));
  return `${(ns / by).toFixed(digits)} ${name}`;
}

/** Distance of the marks of an axis: 1, 2 or 5 of some unit, so that there are about `count`. */
function tick(length, count) {
  const rough = length / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((step) => step * power >= rough) ?? 10);
}
