// Shared by all charts: the server's figure in the theme's colours, and dragging, which changes the URL.
"use strict";
(() => {
  const config = { displayModeBar: false, doubleClick: false, responsive: true, showTips: false, scrollZoom: false };

  /** `value` with every `var(--name)` replaced by the theme's value. */
  function themed(value, style) {
    if (typeof value === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(value);
      return name ? style.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.some((part) => typeof part === "object" && part !== null || String(part).startsWith("var(")) ? value.map((part) => themed(part, style)) : value;
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, themed(part, style)]));
  }

  /** Plotly writes dates as "2026-11-20 14:05:00.123", or as milliseconds: of clocks in the reader's zone, which the figure says. */
  const ahead = () => document.getElementById("chart")?.layout?.meta?.offset_ms || 0;
  const instant = (value) => (typeof value === "number" ? value : Date.parse(`${String(value).replace(" ", "T")}Z`)) - ahead();
  /** As a URL writes it: to the second where that is fine enough. */
  const written = (ms, long) => new Date(long ? Math.round(ms / 1000) * 1000 : ms).toISOString().replace(".000Z", "Z");
  function zoom(fromMs, toMs) {
    const url = new URL(location.href);
    const middle = (fromMs + toMs) / 2, half = Math.max(500, (toMs - fromMs) / 2);
    const long = half > 30000;
    url.searchParams.set("from", written(middle - half, long));
    url.searchParams.set("to", written(middle + half, long));
    url.search = url.search.replaceAll("%3A", ":");
    weir.go(url);
  }

  /** A drag zooms, a double-click widens. For a chart that has just been drawn for the first time. */
  function zoomable(chart) {
    chart.on("plotly_relayout", (change) => {
      const low = change["xaxis.range[0]"], high = change["xaxis.range[1]"];
      if (low !== undefined && high !== undefined) zoom(instant(low), instant(high));
    });
    chart.on("plotly_doubleclick", () => { const wider = document.getElementById("wider"); if (wider) wider.click(); });
  }

  // What a chart shows, to take along: as a picture, and as rows.
  const when = (value, axis) => (axis && axis.type === "date" && value !== null ? new Date(instant(value)).toISOString() : value);
  const inert = (value) => (typeof value === "string" && /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : String(value)); // no formula of a spreadsheet
  const quoted = (value) => { const text = value === null || value === undefined ? "" : inert(value); return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  function rows(chart) {
    const axis = chart._fullLayout.xaxis, found = [["series", "x", "y", "value"]];
    for (const { name = "", x = [], y = [], z } of chart.data) {
      if (z) z.forEach((line, row) => line.forEach((value, column) => { if (value !== null) found.push([name, when(x[column], axis), y[row], value]); }));
      else Array.from(x, (at, index) => { if (at !== null && y[index] !== null && y[index] !== undefined) found.push([name, when(at, axis), y[index], ""]); });
    }
    return found.map((row) => row.map(quoted).join(",")).join("\r\n");
  }
  function save(href, ending) {
    const link = Object.assign(document.createElement("a"), { href, download: `weir-${location.pathname.split("/").filter(Boolean).join("-") || "overview"}.${ending}` });
    link.click();
  }
  async function picture(chart) {
    const ground = getComputedStyle(document.documentElement).getPropertyValue("--panel").trim();
    const layout = { ...chart.layout, paper_bgcolor: ground, plot_bgcolor: ground };
    save(await Plotly.toImage({ data: chart.data, layout, config }, { format: "png", width: chart.offsetWidth, height: chart.offsetHeight, scale: 2 }), "png");
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-save]"), chart = document.getElementById("chart");
    if (!button || !chart || !chart.data) return;
    if (button.dataset.save === "png") picture(chart);
    else save(URL.createObjectURL(new Blob([rows(chart)], { type: "text/csv" })), "csv");
  });

  /** Draws the page's figure, if it has one. `begun` gets the chart that was drawn for the first time. */
  function draw(begun) {
    const chart = document.getElementById("chart"), source = document.getElementById("figure");
    const value = source ? JSON.parse(source.textContent) : "";
    if (!chart || !value || !window.Plotly) return;
    const figure = themed(value, getComputedStyle(document.documentElement));
    Plotly.react(chart, figure.data, figure.layout, config).then(() => {
      chart.dataset.drawn = String(Number(chart.dataset.drawn || 0) + 1);
      if (chart.dataset.drawn === "1") begun(chart);
    });
  }

  /** Draws it now, in another theme, and with new data, which a chart outlives that is part of them. `renewed` is called before it is drawn. */
  function live(begun = () => {}, renewed = () => {}) {
    let before = null;
    const show = () => { renewed(); draw(begun); };
    document.addEventListener("htmx:beforeSwap", (event) => { if (event.target.id === "data") before = document.getElementById("chart"); });
    document.addEventListener("htmx:afterSwap", (event) => {
      if (event.target.id !== "data") return;
      const fresh = document.getElementById("chart");
      if (fresh && before && fresh !== before && before.dataset.drawn) {
        before.setAttribute("aria-label", fresh.getAttribute("aria-label"));
        fresh.replaceWith(before);
      }
      show();
    });
    addEventListener("weir:theme", () => draw(begun));
    show();
  }

  window.weir.chart = { instant, live, written, zoom, zoomable };
})();
