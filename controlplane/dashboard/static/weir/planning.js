// Pages of planners: the server's figure in the theme's colours. Where the page has a range (data-range), a drag zooms and a double-click widens.
"use strict";
(() => {
  const { live, zoomable } = weir.chart;
  const RENEW_MS = 60000;

  // A job that has ended changes what the page shows; without one, it is renewed each minute.
  let renewed = Date.now();
  function renew() { renewed = Date.now(); weir.go(location.href); }
  document.addEventListener("job-ended", renew);
  const busy = () => document.hidden || document.activeElement.matches("input, select, textarea") || String(getSelection());
  if (document.querySelector("[data-renew]")) setInterval(() => { if (Date.now() - renewed >= RENEW_MS && !busy()) renew(); }, 1000);

  live((chart) => { if (chart.dataset.range !== undefined) zoomable(chart); });
})();
