// Follows a job: reads the page again every 2 s and shows what has changed.
"use strict";
const job = document.getElementById("job");
const look = async () => {
  const answer = await fetch(location.href).catch(() => null);
  if (answer?.redirected) location.reload(); // signed out
  if (!answer?.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("job");
  if (now.dataset.status !== job.dataset.status) {
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
setInterval(look, 2000);
