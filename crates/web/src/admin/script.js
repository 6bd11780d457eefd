// Renews the overview every few seconds, tells times in the reader's zone, and helps with new
// passwords. Without it the page is as it was loaded.
"use strict";

// Replaces the contents of a part of the page by those at an address, again and again. A part stands
// still while somebody uses it, and is pale while the server can't be reached.
const renewed = (part, address, seconds, isUsed, prepare) => {
  let last = "";
  const renew = async () => {
    if (document.hidden || isUsed()) return;
    try {
      const answer = await fetch(address + location.search, { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) throw new Error(answer.statusText);
      const text = await answer.text();
      if (isUsed()) return;
      part.classList.remove("stale");
      // Screen readers and selections keep what hasn't changed.
      if (text === last) return;
      last = text;
      part.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
      prepare();
    } catch {
      part.classList.add("stale");
    }
  };
  setInterval(renew, 1000 * seconds);
  document.addEventListener("visibilitychange", renew);
};

const now = document.getElementById("now");
if (now) renewed(now, "/admin/now", 10, () => now.contains(document.activeElement), () => localise(now));

const graphs = document.getElementById("graphs");
if (graphs) {
  // The graphs stand still while somebody reads values out.
  const isRead = () => graphs.querySelector("svg.read") !== null;

  // Values of a graph, where the pointer is or the arrow keys go.
  const prepare = (svg) => {
    const places = svg.dataset.places.split(";").map(Number);
    const times = svg.dataset.times.split(";");
    const lines = svg.dataset.values.split("|").map((line) => line.split(";"));
    if (!svg.dataset.places) return;
    const cursor = svg.querySelector(".cursor");
    const output = svg.closest("figure").querySelector("output");
    let at = places.length - 1;
    const show = () => {
      svg.classList.add("read");
      cursor.setAttribute("x1", places[at]);
      cursor.setAttribute("x2", places[at]);
      const time = new Date(times[at]).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
      output.textContent = `${time}: ${lines.map(([name, ...values]) => `${name} ${values[at]}`.trim()).join(", ")}`;
    };
    const end = () => {
      svg.classList.remove("read");
      output.textContent = "";
    };
    svg.tabIndex = 0;
    svg.addEventListener("pointermove", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      const x = ((event.clientX - left) / width) * svg.viewBox.baseVal.width;
      at = places.reduce((best, place, index) => (Math.abs(place - x) < Math.abs(places[best] - x) ? index : best), 0);
      show();
    });
    svg.addEventListener("pointerleave", () => document.activeElement === svg || end());
    svg.addEventListener("focus", () => svg.matches(":focus-visible") && show());
    svg.addEventListener("blur", end);
    svg.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: places.length - 1 }[event.key];
      if (event.key === "Escape") end();
      if (to === undefined) return;
      event.preventDefault();
      at = Math.min(Math.max(to, 0), places.length - 1);
      show();
    });
  };
  const prepareAll = () => graphs.querySelectorAll("svg").forEach(prepare);
  prepareAll();
  renewed(graphs, "/admin/graphs", 5, isRead, prepareAll);
}

const words = document.body.dataset;
const copy = document.getElementById("copy");
if (copy && navigator.clipboard) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = words.copy;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copy.textContent);
    button.textContent = words.copied;
  });
  copy.after(" ", button);
}

// Times: in the reader's zone, the UTC as a title. Where it matters how long ago it was, or how
// long it takes, less than a day is told as that.
const distance = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });
const away = (seconds) => {
  const [unit, length] = Math.abs(seconds) < 60 ? ["second", 1] : Math.abs(seconds) < 3600 ? ["minute", 60] : ["hour", 3600];
  return distance.format(Math.round(seconds / length), unit);
};
const localise = (part) => {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const local = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    const seconds = (moment - Date.now()) / 1000;
    const isNear = time.classList.contains("away") && Math.abs(seconds) < 86400;
    time.title = isNear ? `${local}, ${time.textContent}` : time.textContent;
    time.textContent = isNear ? away(seconds) : local;
  }
};
localise(document);

// New passwords: shown, or made up.
for (const field of document.querySelectorAll("input[data-new]")) {
  const beside = document.createElement("div");
  beside.className = "beside";
  const add = (label, act) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = label;
    button.addEventListener("click", () => act(button));
    beside.append(button);
    return button;
  };
  const show = add(words.show, (button) => {
    const isShown = field.type === "text";
    field.type = isShown ? "password" : "text";
    button.textContent = isShown ? words.show : words.hide;
  });
  add(words.makeUp, () => {
    // No letters that look alike; there are 32, so that each is as likely.
    const letters = "abcdefghijkmnpqrstuvwxyz23456789";
    const random = crypto.getRandomValues(new Uint8Array(20));
    field.value = Array.from(random, (byte) => letters[byte % 32]).join("").replace(/(.{5})(?=.)/g, "$1-");
    if (field.type === "password") show.click();
  });
  field.after(beside);
}
