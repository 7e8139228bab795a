// The latency chart: the server's figure in the theme's colours. Drag zooms (the URL changes), double-click widens, a click opens a bar's requests.
"use strict";
(() => {
  const chart = document.getElementById("chart");
  const behind = document.getElementById("behind");
  const { instant, live, written, zoom } = weir.chart;

  let dragged = 0;
  function listen() {
    chart.on("plotly_relayout", (change) => {
      if (chart.layout.meta.view === "heatmap") { dragged = Date.now(); chosen(change); return; }
      const low = change["xaxis.range[0]"], high = change["xaxis.range[1]"];
      if (low === undefined || high === undefined) return;
      dragged = Date.now();
      zoom(instant(low), instant(high));
    });
    chart.on("plotly_click", (event) => {
      if (Date.now() - dragged < 300) return;
      if (chart.layout.meta.view === "heatmap") { cell(event.points[0]); return; }
      const href = chart.layout.meta.hrefs[event.points[0].pointNumber];
      if (href) location.assign(href);
    });
    chart.on("plotly_doubleclick", () => { const wider = document.getElementById("wider"); if (wider) wider.click(); });
  }

  /** A region of the heatmap, from what a drag would have zoomed to; whole cells, and a side that was not dragged over stays open. */
  function chosen(change) {
    const x = ["xaxis.range[0]", "xaxis.range[1]"].map((key) => change[key]), y = ["yaxis.range[0]", "yaxis.range[1]"].map((key) => change[key]);
    if (x[0] === undefined && y[0] === undefined) return;
    const { x: xRange, y: yRange } = chart.layout.meta;
    Plotly.relayout(chart, { "xaxis.range": xRange.slice(), "yaxis.range": yRange.slice() });
    region(x[0] === undefined ? null : x.map(instant), y[0] === undefined ? null : y);
  }
  function cell(point) {
    const at = instant(point.x), { step_ms: step, row } = chart.layout.meta;
    region([at - step / 4, at + step / 4], [point.y - row / 4, point.y + row / 4]);
  }
  /** Into the URL: whole steps of ms since the epoch, whole rows of log10 ms. */
  function region(x, y) {
    const url = new URL(location.href), { step_ms: step, row } = chart.layout.meta;
    for (const name of ["slower_than_ms", "above", "e2e_from_ms", "e2e_to_ms", "region_from", "region_to"]) url.searchParams.delete(name);
    if (x) {
      url.searchParams.set("region_from", written(Math.floor(x[0] / step) * step, true));
      url.searchParams.set("region_to", written(Math.ceil(x[1] / step) * step, true));
    }
    if (y) {
      const ms = (rows) => String(Number((10 ** (rows * row)).toPrecision(6)));
      url.searchParams.set("e2e_from_ms", ms(Math.floor(y[0] / row + 1e-6)));
      url.searchParams.set("e2e_to_ms", ms(Math.ceil(y[1] / row - 1e-6)));
    }
    url.search = url.search.replaceAll("%3A", ":");
    weir.go(url);
  }

  function table() {
    if (!behind.open) return;
    const rows = document.getElementById("behind-rows");
    htmx.ajax("GET", rows.dataset.path + location.search, { target: rows, swap: "innerHTML" });
  }

  // What is different about the slow ones: requested after the figures; not again for the same question while it is fresh, nor while the pointer is on it.
  const explanation = document.getElementById("explain");
  const EXPLAIN_MS = 10000;
  let explained = "", explainedAt = 0;
  function explain() {
    const troubled = document.querySelector("#data .trouble") !== null; // said once, where the figures would be
    explanation.hidden = troubled;
    if (troubled) { explained = ""; return; }
    const again = explained === location.search;
    if (again && (Date.now() - explainedAt < EXPLAIN_MS || explanation.matches(":hover, :focus-within"))) return;
    explained = location.search;
    explainedAt = Date.now();
    htmx.ajax("GET", explanation.dataset.path + location.search, { source: explanation, target: explanation, swap: "innerHTML" });
  }

  behind.addEventListener("toggle", table);
  live(listen, () => { table(); explain(); });
})();
