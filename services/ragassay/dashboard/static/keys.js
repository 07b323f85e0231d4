// Keys: / goes to the search field, j and k move through a table's rows, Enter opens one, n and p turn pages, u goes up;
// any other is that of the button or link that names it in data-key.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const follow = (selector) => document.querySelector(selector)?.click();
  const links = [...document.querySelectorAll("table[data-rows] tbody th a")];
  const at = links.indexOf(document.activeElement);
  const to = (place) => links[Math.max(0, Math.min(place, links.length - 1))]?.focus();
  const actions = {
    "/": () => document.querySelector('[data-key="/"]')?.focus(),
    j: () => to(at + 1),
    k: () => to(at - 1),
    n: () => follow('[rel="next"]'),
    p: () => follow('[rel="prev"]'),
    u: () => follow('[data-key="u"]'),
  };
  const named = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (named && !(event.key in actions) && !(event.key === "Enter" && event.target.closest("a, button, summary"))) {
    actions[event.key] = () => named.click();
  }
  if (event.key in actions) {
    event.preventDefault();
    actions[event.key]();
  }
});
