// One key: its state is looked up, reset and banned. Uses $, last, make and short (app.js).
"use strict";

let found; // what the last look-up was about

// act looks a key up, resets or bans it, and shows what is left of its limits.
async function act(action, about) {
	const form = new URLSearchParams({ rule: about.rule });
	form.set(about.id ? "id" : "key", about.id || about.key);
	if (action === "ban") form.set("duration", $("duration").value);
	let answer;
	try {
		const response = await fetch(action, { method: "POST", body: form });
		answer = response.ok ? await response.json() : { error: `${response.status} ${await response.text()}` };
	} catch (e) {
		answer = { error: String(e) };
	}
	found = about;
	showState(answer, about, action);
}

function showState({ limits, own, tiered, error }, about, action) {
	const title = make("p", error ? "" : { reset: "Reset: ", ban: "Banned: " }[action] || "");
	title.append(make("code", about.shown || about.key), ` of rule ${about.rule}`);
	const all = [title];
	if (error) all.push(make("p", error, "alert"));
	for (const l of limits || []) {
		const wait = l.retryAfter < 0 ? "never allows a request" : l.retryAfter ? `allows a request in ${short(l.retryAfter)}` : "allows a request now";
		all.push(make("p", `${l.limit}: ${l.remaining} of ${l.capacity} left, ${wait}` + (l.resetAfter ? `, full in ${short(l.resetAfter)}` : "")));
	}
	if (own) all.push(make("p", "These are limits of this key alone, from an override.", "note"));
	if (tiered) all.push(make("p", "The rule has tiers, so other limits may apply to this key. Their amounts differ; what was used is the same.", "note"));
	$("state").replaceChildren(...all);
	$("change").hidden = !(last && last.reset && limits);
}

$("lookup").onsubmit = e => {
	e.preventDefault();
	act("lookup", { rule: $("lookup-rule").value, key: $("lookup-key").value.trim() });
};
$("reset").onclick = () => act("reset", found);
$("ban").onclick = () => act("ban", found);
