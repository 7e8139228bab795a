// The chart of a metric, or of decisions. A mark with a link, as that of a decision, opens it on a click. It comes and goes with the data; while it stays it is the same element. Drag zooms (the URL changes), double-click widens.
"use strict";
(() => {
  const { live, zoomable } = weir.chart;

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

  live((chart) => {
    zoomable(chart);
    chart.on("plotly_click", ({ event }) => {
      const href = linkAt(chart, event);
      if (href && (event.ctrlKey || event.metaKey)) open(href);
      else if (href) location.assign(href);
    });
    chart.addEventListener("mousemove", (event) => chart.classList.toggle("on-link", Boolean(linkAt(chart, event))));
  });
})();
