// Draws the charts of the report. All text is in the page already.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// when returns an instant, in seconds, at the offset of the log.
function when(seconds) {
	const date = new Date((seconds + data.offset) * 1000).toISOString();
	return data.days ? date.slice(5, 16).replace("T", " ") : date.slice(11, 19);
}

function draw() {
	const points = data.asked.map((n, i) => ({ time: data.from + i * data.width, allowed: n - data.denied[i], denied: data.denied[i], would: data.would[i] }));
	if (points.length === 1) points.push({ ...points[0], time: data.from + data.width });
	const most = f => numbers.format(Math.max(0, ...points.map(f)));
	const time = document.getElementById("time");
	if (time) areaChart(time, points, `Requests over time: at most ${most(p => p.allowed)} admitted and ${most(p => p.denied)} denied in one point`, p => {
		document.getElementById("pointed").textContent = p ? `from ${when(p.time)}: ${numbers.format(p.allowed)} admitted, ${numbers.format(p.denied)} denied` + (p.would ? `, ${numbers.format(p.would)} by dry runs` : "") : "";
	}, when);
	for (const box of document.querySelectorAll("[data-rule]")) {
		const shares = data.rules[box.dataset.rule];
		const columns = shares.map((count, i) => ({ name: `≤ ${data.shares[i]}%`, count }));
		columnChart(box, columns, "Keys by denied share: " + columns.filter(c => c.count).map(c => `${c.name}: ${c.count}`).join(", "));
	}
}

new ResizeObserver(draw).observe(document.querySelector("main"));
