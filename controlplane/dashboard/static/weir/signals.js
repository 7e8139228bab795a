// The chart of a metric, or of decisions. A mark with a link, as that of a decision, opens it on a click. It comes and goes with the data; while it stays it is the same element. Drag zooms (the URL changes), double-click widens.
"use strict";
(() => {
  const { config, themed, zoomable } = weir.chart;

  function draw() {
    const chart = document.getElementById("chart"), source = document.getElementById("figure");
    if (!chart || !source || !window.Plotly) return;
    const figure = themed(JSON.parse(source.textContent), getComputedStyle(document.documentElement));
    Plotly.react(chart, figure.data, figure.layout, config).then(() => {
      chart.dataset.drawn = String(Number(chart.dataset.drawn || 0) + 1);
      if (chart.dataset.drawn !== "1") return;
      zoomable(chart);
      chart.on("plotly_click", ({ event }) => {
        const href = linkAt(chart, event);
        if (href && (event.ctrlKey || event.metaKey)) open(href);
        else if (href) location.assign(href);
      });
      chart.addEventListener("mousemove", (event) => chart.classList.toggle("on-link", Boolean(linkAt(chart, event))));
    });
  }

  /** The link of the mark under the pointer. Hovering also reports near ones; only a hit counts. */
  function linkAt(chart, event) {
    const { left, top } = chart.getBoundingClientRect();
    for (const { customdata, x, y, yaxis } of chart.data) {
      if (!customdata) continue;
      const across = chart._fullLayout.xaxis, up = chart._fullLayout[`yaxis${(yaxis || "y").slice(1)}`];
      const hit = customdata.findIndex((_, at) => Math.hypot(across._offset + across.d2p(x[at]) - event.clientX + left, up._offset + up.d2p(y[at]) - event.clientY + top) < 9);
      if (hit >= 0) return customdata[hit][0];
    }
    return "";
  }

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
  addEventListener("weir:theme", draw);
  draw();
})();
