// Reports on the page that its live part is old, because the server did not answer.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const banner = document.getElementById("stale");
  const report = (stale) => () => {
    banner.hidden = !stale;
  };
  document.body.addEventListener("htmx:sendError", report(true));
  document.body.addEventListener("htmx:responseError", report(true));
  document.body.addEventListener("htmx:afterSwap", report(false));
});
