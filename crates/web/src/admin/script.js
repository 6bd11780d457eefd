// Renews the graphs and figures of the overview every few seconds. Without it the page is as it was loaded.
"use strict";

const graphs = document.getElementById("graphs");
if (graphs) {
  const renew = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("/admin/graphs", { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      graphs.replaceChildren(...page.body.childNodes);
      graphs.classList.remove("stale");
    } catch {
      graphs.classList.add("stale");
    }
  };
  setInterval(renew, 5000);
  document.addEventListener("visibilitychange", renew);
}

const copy = document.getElementById("copy");
if (copy && navigator.clipboard) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copy.textContent);
    button.textContent = "Copied";
  });
  copy.after(" ", button);
}
