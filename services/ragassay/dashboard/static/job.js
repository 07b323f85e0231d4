// Follows a job: an event says that something changed, and the page's own texts say what, read again at most every 2 s.
"use strict";
const job = document.getElementById("job");
const source = new EventSource(job.dataset.events);
let waiting = false;
const look = async () => {
  waiting = false;
  const answer = await fetch(location.href).catch(() => null);
  if (answer?.redirected) location.reload(); // signed out
  if (!answer?.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("job");
  if (now.dataset.status !== job.dataset.status) {
    source.close();
    location.reload();
    return;
  }
  for (const place of job.querySelectorAll("[data-of]")) {
    const other = now.querySelector(`[data-of="${place.dataset.of}"]`);
    place.textContent = other.textContent;
    place.hidden = other.hidden;
  }
  job.querySelector("progress").value = now.querySelector("progress").value;
};
const changed = () => {
  if (!waiting) setTimeout(look, 2000);
  waiting = true;
};
for (const name of ["status", "waiting", "progress", "alert", "finished"]) source.addEventListener(name, changed);
