// Charts in SVG. They read nothing but their arguments, and set text as text only.
"use strict";

const svg = (tag, attributes, text) => {
	const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const name in attributes) e.setAttribute(name, attributes[name]);
	if (text !== undefined) e.textContent = text;
	return e;
};

const numbers = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

// ceiling returns a round number that is not below n.
function ceiling(n) {
	if (n <= 1) return 1;
	const power = 10 ** Math.floor(Math.log10(n));
	return [1, 2, 4, 5, 10].map(f => f * power).find(c => c >= n);
}

// frame empties box and returns an SVG of its size with a grid for values from 0 to top, and the place of a value. Only whole
// numbers are at the grid if all values are whole.
function frame(box, label, top, left, bottom, whole = false) {
	const width = Math.max(box.clientWidth, 200), height = box.clientHeight;
	const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
	const y = v => 8 + (height - 8 - bottom) * (1 - v / top);
	for (const f of [0, .25, .5, .75, 1]) {
		root.append(svg("line", { class: "grid", x1: left, x2: width, y1: y(top * f), y2: y(top * f) }));
		if (f % .5 === 0 && !(whole && top * f % 1)) root.append(svg("text", { x: left - 6, y: y(top * f) + 4, "text-anchor": "end" }, compact.format(top * f)));
	}
	box.replaceChildren(root);
	return { root, width, height, y };
}

// areaChart draws points {time, allowed, denied, would} as stacked areas with a line. It calls pointed with the point under
// the pointer, or with nothing. when formats a time.
function areaChart(box, points, label, pointed, when = clock) {
	const left = 44, bottom = 22;
	const top = ceiling(Math.max(...points.map(p => Math.max(p.allowed + p.denied, p.would)), 0));
	const { root, width, height, y } = frame(box, label, top, left, bottom);
	const x = i => left + (width - left) * i / Math.max(points.length - 1, 1);
	const line = f => points.map((p, i) => `${x(i).toFixed(1)},${y(f(p)).toFixed(1)}`);
	const area = (upper, lower, kind) => root.append(svg("polygon", {
		class: kind, points: [...line(upper), ...line(lower).reverse()].join(" "),
	}));
	area(p => p.allowed, () => 0, "area-allowed");
	area(p => p.allowed + p.denied, p => p.allowed, "area-denied");
	if (points.some(p => p.would > 0)) root.append(svg("polyline", { class: "line-would", points: line(p => p.would).join(" ") }));
	const labels = width < 500 ? 2 : 5;
	for (let n = 0; n <= labels; n++) {
		const i = Math.round((points.length - 1) * n / labels);
		if (i >= 0) root.append(svg("text", {
			x: x(i), y: height - 4, "text-anchor": n === 0 ? "start" : n === labels ? "end" : "middle",
		}, when(points[i].time)));
	}
	const pointer = svg("line", { class: "pointer", y1: 8, y2: height - bottom, visibility: "hidden" });
	root.append(pointer);
	root.addEventListener("pointermove", e => {
		const at = (e.clientX - root.getBoundingClientRect().left - left) / (width - left);
		const i = Math.min(Math.max(Math.round(at * (points.length - 1)), 0), points.length - 1);
		for (const a of ["x1", "x2"]) pointer.setAttribute(a, x(i));
		pointer.setAttribute("visibility", "visible");
		pointed(points[i]);
	});
	root.addEventListener("pointerleave", () => { pointer.setAttribute("visibility", "hidden"); pointed(); });
}

// columnChart draws columns {name, count}.
function columnChart(box, columns, label) {
	const left = 44, bottom = 22;
	const { root, width, height, y } = frame(box, label, ceiling(Math.max(...columns.map(c => c.count), 0)), left, bottom, true);
	const step = (width - left) / columns.length;
	columns.forEach((c, i) => {
		root.append(svg("rect", { class: "column", x: left + i * step + 2, width: Math.max(step - 4, 1), y: y(c.count), height: y(0) - y(c.count) }));
		if (step > 34 || i % 3 === 0) root.append(svg("text", { x: left + (i + .5) * step, y: height - 4, "text-anchor": "middle" }, c.name));
	});
}

// clock returns the time of day.
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
