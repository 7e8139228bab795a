// A metric's chart. It comes and goes with the data; while it stays it is the same element, and the table behind it stays open. Drag zooms (the URL changes), double-click widens.
"use strict";
(() => {
  const { config, themed, instant, zoom } = weir.chart;

  function draw() {
    const chart = document.getElementById("chart"), source = document.getElementById("figure");
    if (!chart || !source || !window.Plotly) return;
    const figure = themed(JSON.parse(source.textContent), getComputedStyle(document.documentElement));
    Plotly.react(chart, figure.data, figure.layout, config).then(() => {
      chart.dataset.drawn = String(Number(chart.dataset.drawn || 0) + 1);
      if (chart.dataset.drawn !== "1") return;
      chart.on("plotly_relayout", (change) => {
        const low = change["xaxis.range[0]"], high = change["xaxis.range[1]"];
        if (low !== undefined && high !== undefined) zoom(instant(low), instant(high));
      });
      chart.on("plotly_doubleclick", () => { const wider = document.getElementById("wider"); if (wider) wider.click(); });
    });
  }

  let before = null, open = false;
  const behind = () => document.querySelector(".behind-signal");
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.target.id !== "data") return;
    before = document.getElementById("chart");
    open = Boolean(behind() && behind().open);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id !== "data") return;
    const fresh = document.getElementById("chart");
    if (fresh && before && before.dataset.drawn) {
      before.setAttribute("aria-label", fresh.getAttribute("aria-label"));
      fresh.replaceWith(before);
    }
    if (behind()) behind().open = open;
    draw();
  });
  addEventListener("weir:theme", draw);
  draw();
})();
