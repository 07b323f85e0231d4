// On the page that labels rows a key presses the button or link that names it in data-key.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const named = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (named) {
    event.preventDefault();
    named.click();
  }
});
