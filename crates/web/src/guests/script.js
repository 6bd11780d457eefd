// Writes times as the reader's clock has them, and lets passwords be shown. Without it they are in
// UTC and hidden.
"use strict";

for (const time of document.querySelectorAll("time[datetime]")) {
  const shown = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" });
  time.title = time.textContent;
  time.textContent = shown.format(new Date(time.dateTime));
}

const passwords = document.querySelectorAll("input[type=password]");
const place = document.getElementById("show-passwords");
if (place && passwords.length) {
  const box = document.createElement("input");
  box.type = "checkbox";
  box.addEventListener("change", () => passwords.forEach((field) => (field.type = box.checked ? "text" : "password")));
  const label = document.createElement("label");
  label.className = "tick";
  label.append(box, place.dataset.label);
  place.append(label);
}
