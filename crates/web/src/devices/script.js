// Shows the readings in progress, from the API every two seconds, with the token of this tab.
"use strict";

const API = "/api/v1/readings";
const EVERY = 2000;
// Points of a plot, and how wide and high it is.
const MOST = 600;
const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [800, 240, 70, 10, 24];

const element = id => document.getElementById(id);
let timer = 0;
let running = null;

function headers() {
  return { Authorization: `Bearer ${sessionStorage.getItem("token")}` };
}

function say(words, isBad) {
  const state = element("state");
  if (state.textContent !== words) state.textContent = words;
  state.classList.toggle("mistake", Boolean(isBad));
}

function made(name, words, kind) {
  const node = document.createElement(name);
  if (words !== undefined) node.textContent = words;
  if (kind) node.className = kind;
  return node;
}

const number = value => value.toLocaleString("en");
const age = value => (value === null ? "silent" : `${number(value)} ms`);

// Columns: heading, what of a row it shows, whether that is a number.
const TABLES = {
  fronts: [
    ["Name", row => row.name],
    ["Protocol", row => row.protocol],
    ["Things read", row => number(row.things), true],
    ["Silent", row => number(row.silent), true],
    ["Late", row => number(row.late), true],
    ["Readers", row => number(row.readers), true],
    ["Last reading", row => age(row.heard_ms), true],
  ],
  devices: [
    ["Request", row => row],
    ["Front-end", row => row.front_end],
    ["Readers", row => number(row.readers), true],
    ["Readings", row => number(row.readings), true],
    ["Last reading", row => age(row.age_ms), true],
    ["Late", row => `${number(row.late_ms)} ms`, true],
    ["Status", row => row.status],
  ],
  clients: [
    ["From", row => row.from],
    ["Speaks", row => row.speaks],
    ["Lists", row => number(row.lists), true],
    ["Requests", row => number(row.requests), true],
    ["Bytes waiting", row => number(row.waiting_bytes), true],
  ],
};

function table(id, rows, isBad) {
  const columns = TABLES[id];
  const head = made("tr");
  for (const [heading, , isNumber] of columns) {
    const cell = made("th", heading, isNumber ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  }
  const body = rows.map(row => {
    const line = made("tr", undefined, isBad(row) ? "bad" : "");
    for (const [, show, isNumber] of columns) {
      const shown = show(row);
      const cell = made("td", typeof shown === "string" ? shown : undefined, isNumber ? "number" : "");
      if (typeof shown !== "string") cell.append(button(row.request));
      line.append(cell);
    }
    return line;
  });
  const [upper, lower] = [made("thead"), made("tbody")];
  upper.append(head);
  lower.append(...body);
  // A device that has the keyboard's focus keeps it.
  const held = document.activeElement?.dataset?.request;
  element(id).replaceChildren(upper, lower);
  if (held && id === "devices") {
    [...element(id).querySelectorAll("button")].find(other => other.dataset.request === held)?.focus();
  }
}

function button(request) {
  const node = made("button", request);
  node.type = "button";
  node.dataset.request = request;
  node.title = `Plot ${request}`;
  node.addEventListener("click", () => plot(request));
  return node;
}

function figures(overview) {
  const all = [
    ["Clients", overview.clients],
    ["Things read", overview.things],
    ["Readings", overview.readings],
    ["Delivered", overview.delivered],
    ["Unanswered", overview.unanswered],
    ["Dropped", overview.dropped],
  ];
  element("figures").replaceChildren(...all.map(([name, value]) => {
    const figure = made("div", undefined, "figure");
    figure.append(made("dt", name), made("dd", number(value)));
    return figure;
  }));
}

async function look() {
  clearTimeout(timer);
  try {
    const answer = await fetch(`${API}/overview`, { headers: headers(), cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) {
      sessionStorage.removeItem("token");
      say("This token may not read devices", true);
      return;
    }
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const overview = await answer.json();
    figures(overview);
    table("fronts", overview.front_ends, row => row.silent + row.late > 0);
    table("devices", overview.devices, row => row.age_ms === null);
    table("clients", overview.busiest, () => false);
    element("seen").hidden = false;
    say("Connected");
  } catch (error) {
    say(`No answer: ${error.message}`, true);
  }
  timer = setTimeout(look, EVERY);
}

function stop() {
  running?.abort();
  running = null;
  element("stop").disabled = true;
}

async function plot(request) {
  stop();
  element("request").value = request;
  const mine = new AbortController();
  running = mine;
  element("stop").disabled = false;
  element("plot-words").textContent = `${request}: no reading yet.`;
  const points = [];
  try {
    const address = `${API}/events?requests=${encodeURIComponent(request)}`;
    const answer = await fetch(address, { headers: headers(), signal: mine.signal });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? `the server answered ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the server has ended it");
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        if (event.startsWith("data: ")) take(request, JSON.parse(event.slice(6)), points);
      }
    }
  } catch (error) {
    if (error.name !== "AbortError") element("plot-words").textContent = `${request}: ${error.message}.`;
    if (running === mine) stop();
  }
}

function take(request, reading, points) {
  const { value, units } = reading;
  const words = element("plot-words");
  if (value === undefined) {
    words.textContent = `${request}: ${reading.status ?? "no value"}.`;
    return;
  }
  if (Array.isArray(value) && value.every(one => typeof one === "number")) {
    draw(value.map((one, place) => [place, one]), ["0", String(value.length - 1)]);
    words.textContent = `${request}: ${value.length} numbers, ${reading.time}.`;
  } else if (typeof value === "number") {
    points.push([Date.parse(reading.time), value]);
    if (points.length > MOST) points.shift();
    const clock = at => new Date(at).toLocaleTimeString("en-GB");
    draw(points, [clock(points[0][0]), clock(points[points.length - 1][0])]);
    words.textContent = `${request}: ${value} ${units ?? ""} at ${reading.time}, ${points.length} readings.`;
  } else {
    words.textContent = `${request}: ${JSON.stringify(value)}`;
  }
}

function draw(points, ends) {
  const make = (name, attributes, words) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (words !== undefined) node.textContent = words;
    return node;
  };
  let [low, high] = [Infinity, -Infinity];
  for (const [, value] of points) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low === high) [low, high] = [low - 1, high + 1];
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const x = at => LEFT + (last === first ? 0 : (at - first) / (last - first)) * (WIDTH - LEFT - 10);
  const y = value => TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM);
  const marks = [high, (high + low) / 2, low].flatMap(value => [
    make("line", { x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value) }),
    make("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, Number(value.toPrecision(5))),
  ]);
  element("plot").replaceChildren(
    ...marks,
    make("text", { x: LEFT, y: HEIGHT - 6 }, ends[0]),
    make("text", { x: WIDTH - 10, y: HEIGHT - 6, "text-anchor": "end" }, ends[1]),
    make("polyline", { points: points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }),
  );
}

element("access").addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem("token", element("token").value.trim());
  element("token").value = "";
  look();
});
element("plotted").addEventListener("submit", event => {
  event.preventDefault();
  plot(element("request").value.trim());
});
element("stop").addEventListener("click", stop);
if (sessionStorage.getItem("token")) look();
