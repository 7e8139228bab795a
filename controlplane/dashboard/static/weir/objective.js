// The burn-down chart: the server's figure in the theme's colours. Without one its place is hidden.
"use strict";
weir.chart.live(undefined, () => {
  const source = document.getElementById("figure");
  document.getElementById("chart").parentElement.hidden = !source || !JSON.parse(source.textContent);
});
