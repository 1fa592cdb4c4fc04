"use strict";
// Draws each status as it comes. Text goes in as text only, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const CURVES = [
  { key: "tok_s", name: "tok/s so far, with its 95 % interval", color: "--rate", band: true },
  { key: "steps_per_s", name: "steps/s", color: "--steps" },
  { key: "accept_length", name: "accept length of the pass so far", color: "--length" },
  { key: "tokens", name: "tokens received", color: "--tokens" },
];
const byId = (id) => document.getElementById(id);

function made(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

const known = (value) => value !== null && value !== undefined;
const digits = (value, count) => (known(value) ? value.toFixed(count) : "");

function span(seconds) {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function half(one, key = "value") {
  if (!known(one[key])) return "";
  const text = digits(one[key], 1);
  if (!known(one.low) || !known(one.high)) return text;
  return `${text} ${one.provisional ? "~" : "±"}${((one.high - one.low) / 2).toFixed(1)}`;
}

function reached(one) {
  const stopped = one.outcome === "stopped" && known(one.bound);
  return stopped ? `at most ${digits(one.bound, 1)}` : half(one);
}

function drawn(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function chart(points, curve) {
  const told = points.filter((point) => known(point[curve.key]));
  if (told.length < 2) return null;
  const [width, height, left, foot] = [320, 130, 44, 18];
  const lows = told.map((p) => (curve.band && known(p.low) ? p.low : p[curve.key]));
  const highs = told.map((p) => (curve.band && known(p.high) ? p.high : p[curve.key]));
  let [bottom, top] = [Math.min(...lows), Math.max(...highs)];
  if (top - bottom < 1e-9) [bottom, top] = [bottom - 1, top + 1];
  const [first, last] = [told[0].elapsed_s, told[told.length - 1].elapsed_s];
  const x = (p) => left + ((p.elapsed_s - first) / Math.max(1e-9, last - first)) * (width - left - 6);
  const y = (value) => 6 + ((top - value) / (top - bottom)) * (height - foot - 10);
  const path = (value) => told.map((p, i) => `${i ? "L" : "M"}${x(p).toFixed(1)} ${y(value(p, i)).toFixed(1)}`);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const latest = told[told.length - 1][curve.key];
  svg.append(drawn("title", {}, `${curve.name}: from ${digits(told[0][curve.key], 2)} to ${digits(latest, 2)}`));
  if (curve.band) {
    const back = told.map((p, i) => [p, i]).reverse();
    const under = back.map(([p, i]) => `L${x(p).toFixed(1)} ${y(lows[i]).toFixed(1)}`);
    svg.append(drawn("path", { class: "band", d: `${path((_, i) => highs[i]).join("")}${under.join("")}Z` }));
  }
  svg.append(drawn("path", { class: "axis", d: `M${left} 4V${height - foot}H${width - 4}`, fill: "none" }));
  svg.append(drawn("path", { class: "curve", style: "", d: path((p) => p[curve.key]).join("") }));
  svg.lastChild.style.stroke = `var(${curve.color})`;
  const places = top - bottom < 5 ? 2 : 0;
  svg.append(drawn("text", { x: left - 4, y: 14, "text-anchor": "end" }, digits(top, places)));
  svg.append(drawn("text", { x: left - 4, y: height - foot, "text-anchor": "end" }, digits(bottom, places)));
  svg.append(drawn("text", { x: left, y: height - 4 }, `${first.toFixed(0)} s`));
  svg.append(drawn("text", { x: width - 4, y: height - 4, "text-anchor": "end" }, `${last.toFixed(0)} s of the host`));
  const figure = made("figure");
  figure.append(svg, made("figcaption", curve.name));
  return figure;
}

function figureOf(name, value) {
  const part = made("span", `${name} `);
  part.append(made("b", value));
  return part;
}

function running(one, word) {
  const box = made("article", undefined, "trial");
  box.dataset.trial = one.trial;
  box.append(made("h3", `${word}trial ${one.number}: ${one.name}`));
  box.append(made("p", one.why || one.purpose, "soft"));
  const figures = made("p", undefined, "figures");
  const detail = one.detail ? `: ${one.detail}` : "";
  figures.append(figureOf("phase", `${one.phase}${detail}`), figureOf("for", span(one.elapsed_s)));
  if (known(one.tok_s)) figures.append(figureOf("tok/s", half(one, "tok_s")));
  if (known(one.accept_length)) figures.append(figureOf("accept length", digits(one.accept_length, 2)));
  if (known(one.steps_per_s)) figures.append(figureOf("steps/s", digits(one.steps_per_s, 1)));
  if (known(one.tokens)) figures.append(figureOf("tokens", String(one.tokens)));
  if (one.silent_s > 20) figures.append(figureOf("silent for", span(one.silent_s)));
  box.append(figures);
  const curves = made("div", undefined, "curves");
  for (const curve of CURVES) {
    const figure = chart(one.curve, curve);
    if (figure) curves.append(figure);
  }
  box.append(curves);
  return box;
}

function ended(one, leader) {
  const row = made("tr", undefined, leader === one.trial ? "leader" : "");
  row.append(
    made("td", String(one.number)), made("td", one.name), made("td", one.outcome),
    made("td", reached(one), "number"), made("td", digits(one.accept_length, 2), "number"),
    made("td", [one.purpose, one.reason].filter(Boolean).join(": "), "note"),
  );
  return row;
}

function hours(sums) {
  return Object.entries(sums).map(([name, value]) => `${name} ${value.toFixed(2)}`).join(", ");
}

function sum(seen) {
  const parts = [`${seen.done}${known(seen.planned) ? `/${seen.planned}` : ""} trials`];
  for (const role of ["leader", "plain"]) {
    const one = seen[role];
    const name = role === "leader" && seen.status !== "running" ? "best" : role;
    if (one) parts.push(`${name} ${seen.emulated ? "EMULATED " : ""}${half(one)} ${seen.unit} (${one.name})`);
  }
  if (seen.certainty) parts.push(seen.certainty);
  if (known(seen.left_s) && seen.status === "running") parts.push(`about ${span(seen.left_s)} left`);
  return parts.join(" · ");
}

function show(seen) {
  const word = seen.emulated ? "EMULATED " : "";
  document.title = `${seen.status} · ${seen.name}`;
  byId("word").hidden = !seen.emulated;
  byId("name").textContent = `${seen.sweep} on ${seen.hosts.join(", ")}`;
  if (byId("state").textContent !== seen.status) byId("state").textContent = seen.status;
  byId("sum").textContent = sum(seen);
  byId("unit").textContent = `${word}${seen.unit}`;
  byId("idle").hidden = seen.running.length > 0;
  byId("running").replaceChildren(...seen.running.map((one) => running(one, word)));
  const leader = seen.leader ? seen.leader.trial : "";
  byId("ended").replaceChildren(...[...seen.ended].reverse().map((one) => ended(one, leader)));
  byId("outcomes").textContent = Object.entries(seen.outcomes).map(([name, n]) => `${n} ${name}`).join(", ");
  const saved = hours(seen.saved_gpu_hours);
  byId("ledger").textContent = `${word}${seen.gpu_hours.toFixed(2)}: ${hours(seen.spent_gpu_hours)}` +
    (saved ? `; saved, by estimate: ${saved}` : "");
  byId("warned").hidden = seen.warnings.length === 0;
  byId("warnings").replaceChildren(...seen.warnings.map((line) => made("li", line)));
}

const source = new EventSource("events");
source.onmessage = (event) => { byId("lost").hidden = true; show(JSON.parse(event.data)); };
source.onopen = () => { byId("lost").hidden = true; };
source.onerror = () => { byId("lost").hidden = false; };
