// The page: it keeps the events of one stream and shows the last one. Keys come from clients, so all text is set as text.
"use strict";

const $ = id => document.getElementById(id);
const hour = 3600;
let last; // the last event
let counts = new Map(); // second -> [allowed, denied, would be denied]
let source, retry;

// set changes the text of e only if it differs, so that screen readers hear changes only.
function set(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

function make(tag, text, kind) {
	const e = document.createElement(tag);
	if (text !== undefined) e.textContent = text;
	if (kind) e.className = kind;
	return e;
}

// rows fills a table with one row per item of a list, in place: focus and selection stay.
function rows(table, list, fill) {
	const body = table.tBodies[0];
	while (body.rows.length > list.length) body.deleteRow(-1);
	list.forEach((item, i) => fill(body.rows[i] || body.insertRow(), item));
}

// cell sets the text of cell i of a row, and its class. On a narrow screen its label is the head of its column.
function cell(row, i, text, kind = "") {
	while (row.cells.length <= i) {
		const e = make("td"), n = row.cells.length;
		e.dataset.label = row.closest("table").tHead.rows[0].cells[n].textContent;
		row.append(e);
	}
	set(row.cells[i], text);
	if (row.cells[i].className !== kind) row.cells[i].className = kind;
	return row.cells[i];
}

function connect() {
	disconnect();
	source = new EventSource("events?rule=" + encodeURIComponent($("rule").value));
	let first = true;
	source.onmessage = e => {
		if (first) counts.clear();
		first = false;
		receive(JSON.parse(e.data));
	};
	source.onerror = () => {
		badge($("connection"), "disconnected", "bad");
		first = true;
		if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 2000);
	};
}

function disconnect() {
	clearTimeout(retry);
	if (source) source.close();
	source = undefined;
}

function badge(e, text, kind) {
	set(e, text);
	if (e.className !== "badge " + kind) e.className = "badge " + kind;
}

function receive(event) {
	const before = last;
	last = event;
	event.history[0].forEach((allowed, i) => counts.set(event.from + i, [allowed, event.history[1][i], event.history[2][i]]));
	for (const second of counts.keys()) if (second <= event.now / 1000 - hour) counts.delete(second);
	badge($("connection"), "live", "good");
	showStatus(event);
	showChoices(event.rules);
	showNow(event);
	showKept(event, before);
	showRules(event.rules);
	showTop(event);
	showQuotas(event);
	showTraffic();
	showStore(event);
}

function showStatus({ store, start, now, file, degraded }) {
	const failed = store.down;
	badge($("health"), failed ? "store: unavailable" : "store: ok", failed ? "bad" : "good");
	set($("uptime"), "counting for " + duration(now - start));
	const zone = zoneOf(now);
	set($("zone"), "times in " + zone);
	set($("until"), `Until (${zone})`);
	$("file").hidden = !file;
	let alert = failed ? `The store is unavailable since ${moment(store.since, now)}: the failure mode of each rule decides. ${store.error || ""}` : "";
	if (file) {
		set($("file"), `rules: ${file.path} ${file.hash.slice(0, 12)}` + (file.loaded ? `, loaded ${moment(file.loaded, now)}` : ""));
		if (file.error) alert += ` The rules file could not be loaded, the previous rules stay active: ${file.error}`;
	}
	$("alert").hidden = !alert;
	set($("alert"), alert.trim());
	document.title = (failed ? "(!) " : "") + "Rate limits";
}

// zoneOf returns the time zone of an instant, as "UTC+02:00".
function zoneOf(ms) {
	const minutes = -new Date(ms).getTimezoneOffset(), two = n => String(Math.trunc(n)).padStart(2, "0"), size = Math.abs(minutes);
	return "UTC" + (minutes ? `${minutes < 0 ? "\u2212" : "+"}${two(size / 60)}:${two(size % 60)}` : "");
}

// moment returns a time of day, with its date if that may not be the date of now.
function moment(ms, now) {
	return (now - ms < 43200000 ? "" : new Date(ms).toLocaleDateString() + " ") + clock(ms / 1000);
}

function showChoices(rules) {
	const names = rules.map(r => r.name);
	choices($("rule"), ["", ...names], name => name === "" ? "all rules" : name);
	choices($("lookup-rule"), names, name => name);
}

function choices(select, names, text) {
	if (select.options.length === names.length && names.every((n, i) => select.options[i].value === n)) return;
	const chosen = select.value;
	select.replaceChildren(...names.map(n => new Option(text(n), n)));
	if (names.includes(chosen)) select.value = chosen;
}

function showNow({ rules, requests, degraded, now }) {
	const sum = [0, 0, 0];
	for (let s = Math.floor(now / 1000) - 10; s < Math.floor(now / 1000); s++) (counts.get(s) || []).forEach((n, i) => sum[i] += n);
	const total = sum[0] + sum[1] + sum[2];
	set($("now-allowed"), numbers.format((sum[0] + sum[2]) / 10));
	set($("now-denied"), numbers.format(sum[1] / 10));
	set($("now-would"), numbers.format(sum[2] / 10));
	set($("now-share"), total ? `${numbers.format(100 * sum[1] / total)}% of requests` : "");
	const why = { no_key: "no key", bad_key: "bad key", invalid: "invalid", unavailable: "store unavailable" };
	const reasons = Object.keys(why).filter(k => requests[k]);
	set($("undecided"), compact.format(reasons.reduce((n, k) => n + requests[k], 0)));
	set($("undecided-why"), [...reasons.map(k => `${why[k]}: ${compact.format(requests[k])}`), degraded ? `decided without the store: ${compact.format(degraded)}` : ""].filter(Boolean).join(", "));
}

// showKept shows what stores hold and lease, if any did. Before is the event before, or undefined.
function showKept({ held, settled, leases, now }, before) {
	const ended = settled.free + settled.charged + settled.failed;
	$("held-tile").hidden = !held && !ended;
	set($("held"), compact.format(held));
	set($("settled"), `ended: ${compact.format(settled.charged)} charged, ${compact.format(settled.free)} free` + (settled.failed ? `, ${compact.format(settled.failed)} failed` : ""));
	$("leases-tile").hidden = !leases.keys && !leases.decisions;
	const passed = before && now > before.now ? (now - before.now) / 1000 : 0;
	if (passed) set($("leased"), numbers.format(Math.max(0, leases.decisions - before.leases.decisions) / passed));
	set($("leases"), `${compact.format(leases.keys)} keys leased; ${compact.format(leases.decisions)} since start, ${compact.format(leases.returned)} given back`);
}

function showRules(rules) {
	const list = rules.flatMap(rule => (rule.limits || [{ limit: "", results: {} }]).map((limit, i) => ({ rule, limit, first: i === 0 })));
	rows($("rules"), list, (row, { rule, limit, first }) => {
		if (!row.cells.length) row.append(make("th"));
		const head = row.cells[0], text = first ? [rule.name, rule.dryRun, rule.onFailure, ...(rule.routes || [])].join("\n") : "";
		if (head.dataset.text !== text + rule.name) {
			head.dataset.text = text + rule.name;
			head.title = text;
			head.scope = "row";
			head.replaceChildren(make("span", rule.name, first ? "" : "hidden"));
			if (first && rule.dryRun) head.append(" ", make("span", "dry run", "tag"));
			if (first) head.append(make("span", rule.onFailure ? (rule.routes ? rule.routes.join(", ") : "all requests") + `; without the store: ${rule.onFailure}` : "in no limiter", "sub"));
			if (first) head.append(make("span", "", "sub"));
		}
		if (first) set(head.lastChild, rule.own ? compact.format(rule.own) + " decided by overrides" : "");
		const n = limit.results, rate = i => first ? numbers.format(rule.recent[i] / 10) : "";
		cell(row, 1, limit.limit + (limit.other ? " *" : ""), "text");
		cell(row, 2, first ? numbers.format((rule.recent[0] + rule.recent[2]) / 10) : "");
		cell(row, 3, rate(1), rule.recent[1] ? "hot" : "");
		cell(row, 4, compact.format((n.allowed || 0) + (n.near || 0)));
		cell(row, 5, compact.format(n.near || 0));
		cell(row, 6, compact.format(n.denied || 0));
		cell(row, 7, compact.format(n.would_deny || 0), rule.recent[2] ? "warm" : "");
		cell(row, 8, rule.dryRun ? compact.format(n.would_wait || 0) : first ? compact.format(rule.waited || 0) : "");
	});
}

const unfolded = new Set(); // the texts of the keys whose rows are all shown

// showTop shows one row for all keys that are shown alike, which unfolds into theirs.
function showTop({ top }) {
	$("top").hidden = !top || !top.length;
	$("top-none").hidden = !$("top").hidden;
	const groups = new Map();
	for (const k of top || []) groups.set(k.key, [...(groups.get(k.key) || []), k]);
	const list = [...groups.values()].flatMap(g => g.length === 1 ? g : [{ group: g }, ...(unfolded.has(g[0].key) ? g : [])]);
	rows($("top"), list, (row, k) => {
		const { key, rule, id, count, keys } = k.group ? summary(k.group) : k;
		const mark = keys > 1 ? keys + " keys" : "#" + id.slice(0, 4), member = !k.group && groups.get(key).length > 1;
		const head = cell(row, 0, row.cells[0] ? row.cells[0].textContent : "", member ? "text member" : "text");
		if (head.dataset.id !== key + mark) {
			head.dataset.id = key + mark;
			head.replaceChildren(make("span", key), " ", make("span", mark, "id"));
		}
		cell(row, 1, rule, "text");
		cell(row, 2, numbers.format(count));
		const c = cell(row, 3, row.cells[3] ? row.cells[3].textContent : "");
		if (!c.firstElementChild) c.replaceChildren(make("button"));
		const button = c.firstElementChild, open = unfolded.has(key);
		set(button, !k.group ? "Look up" : open ? "Hide" : "Show");
		button.setAttribute("aria-label", button.textContent + (k.group ? ` each: ${key} ${mark}, ${rule}` : ` ${key} ${mark} of rule ${rule}`));
		if (k.group) button.setAttribute("aria-expanded", open);
		else button.removeAttribute("aria-expanded");
		button.onclick = () => k.group ? (open ? unfolded.delete(key) : unfolded.add(key), showTop(last)) : act("lookup", { rule, id, shown: `${key} ${mark}` });
	});
}

// summary returns the row of keys that are shown alike.
function summary(group) {
	const rules = new Set(group.map(k => k.rule)).size;
	return {
		...group[0], rule: rules > 1 ? rules + " rules" : group[0].rule,
		keys: new Set(group.map(k => k.id)).size, count: group.reduce((n, k) => n + k.count, 0),
	};
}

// showQuotas shows keys with limits of their own, and grants, if there are any.
function showQuotas({ own = [], grants = [], now }) {
	$("own-section").hidden = !own.length;
	rows($("own"), own, (row, k) => {
		const name = `${k.key} #${k.id.slice(0, 4)}`;
		[name, k.rule, k.limits].forEach((text, i) => cell(row, i, text, "text"));
		cell(row, 3, numbers.format(k.count));
		cell(row, 4, moment(k.last, now));
		const c = cell(row, 5, row.cells[5] ? row.cells[5].textContent : "");
		if (!c.firstElementChild) c.replaceChildren(make("button", "Look up"));
		c.firstElementChild.setAttribute("aria-label", `Look up ${name} of rule ${k.rule}`);
		c.firstElementChild.onclick = () => act("lookup", { rule: k.rule, id: k.id, shown: name });
	});
	$("grants-section").hidden = !grants.length;
	rows($("grants"), grants, (row, g) => {
		[moment(g.at, now), g.rule, g.key].forEach((text, i) => cell(row, i, text, "text"));
		cell(row, 3, (g.requests > 0 ? "+" : "\u2212") + numbers.format(Math.abs(g.requests)));
	});
}

// series returns the last seconds as points of step seconds each, all of them over. Steps before the start are left out, but an area has at least two points.
function series(seconds, step) {
	const whole = ms => Math.floor(ms / 1000 / step) * step, end = whole(last.now);
	const points = [];
	for (let t = Math.max(end - seconds, Math.min(whole(last.start), end - 2 * step)); t < end; t += step) {
		const sum = [0, 0, 0];
		for (let s = t; s < t + step; s++) (counts.get(s) || []).forEach((n, i) => sum[i] += n);
		points.push({ time: t + step, allowed: (sum[0] + sum[2]) / step, denied: sum[1] / step, would: sum[2] / step });
	}
	return points;
}

function showTraffic() {
	if (!last) return;
	const seconds = Number(document.querySelector("[name=period]:checked").value);
	const points = series(seconds, seconds === hour ? 10 : 1);
	const peak = f => numbers.format(Math.max(...points.map(f)));
	areaChart($("traffic"), points, `Requests per second of ${last.rule || "all rules"}: at most ${peak(p => p.allowed)} allowed, ${peak(p => p.denied)} denied`, p => {
		set($("pointed"), p ? `${clock(p.time)}: ${numbers.format(p.allowed)} allowed, ${numbers.format(p.denied)} denied, ${numbers.format(p.would)} would be denied` : "");
	});
	rows($("traffic-table"), series(seconds, seconds / 30).reverse(), (row, p) => {
		[clock(p.time), numbers.format(p.allowed), numbers.format(p.denied), numbers.format(p.would)].forEach((text, i) => cell(row, i, text));
	});
}

function showStore({ store, keys }) {
	const calls = store.calls.reduce((a, b) => a + b, 0);
	const name = i => i < store.bounds.length ? short(store.bounds[i] * 1000) : "more";
	let text = "No call was measured: the store is in this process, or was not asked.";
	if (calls) {
		let sum = 0;
		const at = store.calls.findIndex(n => (sum += n) >= calls * .99);
		text = `${compact.format(calls)} calls, ${short(1000 * store.seconds / calls)} on average, 99% ${at < store.bounds.length ? "within " + name(at) : "slower than " + name(at - 1)}; ${numbers.format(store.failures)} failed or were late.`;
	}
	if (keys.own) text += ` ${compact.format(keys.own)} keys in memory.`;
	if (keys.shared) text += ` ${compact.format(keys.shared)} states are shared by keys that had no room of their own: raise MaxKeys.`;
	set($("store-text"), text);
	for (const id of ["latency", "latency-details"]) $(id).hidden = !calls;
	const columns = store.calls.map((count, i) => ({ name: i < store.bounds.length ? "≤ " + name(i) : "more", count }));
	columnChart($("latency"), columns, "Store calls by duration. " + text);
	rows($("latency-table"), columns, (row, c) => { cell(row, 0, c.name); cell(row, 1, numbers.format(c.count)); });
}

// short returns a duration given in milliseconds.
function short(ms) {
	return ms < 1 ? `${numbers.format(ms * 1000)}\u00a0µs` : ms < 1000 ? `${numbers.format(ms)}\u00a0ms` : duration(ms);
}

function duration(ms) {
	const s = Math.ceil(ms / 1000);
	if (s < 100) return `${s}\u00a0s`;
	if (s < 6000) return `${Math.floor(s / 60)} min ${s % 60 ? s % 60 + " s" : ""}`.trim();
	return s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : `${Math.floor(s / 86400)} days`;
}

$("rule").onchange = connect;
document.querySelectorAll("[name=period]").forEach(e => e.onchange = showTraffic);
document.onvisibilitychange = () => document.hidden ? disconnect() : connect();
new ResizeObserver(() => { if (last) { showTraffic(); showStore(last); } }).observe($("traffic"));
if (!document.hidden) connect(); // a browser opens few connections to one server, and a tab in the background needs none
