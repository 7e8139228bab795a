// Pages of planners: the server's figure in the theme's colours. Where the page has a range (data-range), a drag zooms and a double-click widens.
"use strict";
(() => {
  const { config, themed, zoomable } = weir.chart;
  const RENEW_MS = 60000;

  function draw() {
    const chart = document.getElementById("chart"), source = document.getElementById("figure");
    if (!chart || !source || !window.Plotly) return;
    const figure = themed(JSON.parse(source.textContent), getComputedStyle(document.documentElement));
    Plotly.react(chart, figure.data, figure.layout, config).then(() => {
      chart.dataset.drawn = String(Number(chart.dataset.drawn || 0) + 1);
      if (chart.dataset.listening || chart.dataset.range === undefined) return;
      chart.dataset.listening = "1";
      zoomable(chart);
    });
  }

  // The chart outlives new data.
  let before = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.target.id !== "data") return;
    before = document.getElementById("chart");
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id !== "data") return;
    const fresh = document.getElementById("chart");
    if (fresh && before && before.dataset.drawn) {
      before.setAttribute("aria-label", fresh.getAttribute("aria-label"));
      fresh.replaceWith(before);
    }
    draw();
  });

  // A job that has ended changes what the page shows; without one, it is renewed each minute.
  let renewed = Date.now();
  function renew() { renewed = Date.now(); weir.go(location.href); }
  document.addEventListener("job-ended", renew);
  const busy = () => document.hidden || document.activeElement.matches("input, select, textarea") || String(getSelection());
  if (document.querySelector("[data-renew]")) setInterval(() => { if (Date.now() - renewed >= RENEW_MS && !busy()) renew(); }, 1000);

  addEventListener("weir:theme", draw);
  draw();
})();
