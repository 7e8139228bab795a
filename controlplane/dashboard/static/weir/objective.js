// The burn-down chart: the server's figure in the theme's colours.
"use strict";
(() => {
  const chart = document.getElementById("chart");
  const { config, themed } = weir.chart;

  function draw() {
    const source = document.getElementById("figure");
    const value = source ? JSON.parse(source.textContent) : "";
    chart.parentElement.hidden = !value;
    if (!value || !window.Plotly) return;
    const figure = themed(value, getComputedStyle(document.documentElement));
    Plotly.react(chart, figure.data, figure.layout, config).then(() => {
      chart.dataset.drawn = String(Number(chart.dataset.drawn || 0) + 1);
    });
  }

  document.addEventListener("htmx:afterSwap", (event) => { if (event.target.id === "data") draw(); });
  addEventListener("weir:theme", draw);
  draw();
})();
