// Package rulefile reads the rules of a limiter from a YAML file and swaps them while the limiter runs.
//
//	funcs := rulefile.Funcs{Keys: map[string]core.KeyFunc{"user": keyfunc.User(userOf)}}
//	file, err := rulefile.Load("spillgate.yaml", funcs)
//	if err != nil {
//		log.Fatal(err) // every mistake, each with its line and column
//	}
//	limiter := core.Must(core.New(file.Rules))
//	go rulefile.Watch(ctx, "spillgate.yaml", limiter, funcs, rulefile.Options{})
//
// [Options] can name rules of the program that apply together with the rules of the file.
//
// A file has rules and, if you are behind a proxy, the proxies to trust:
//
//	proxies: {trusted: [10.0.0.0/8], header: X-Forwarded-For}
//	funcs: [user, plan, exportCost]
//	rules:
//	  - name: login
//	    match: ["POST /login", "POST /v1/{tenant}/login"]
//	    key: ip
//	    limits: 5/10m;ban=1h, 20/d
//	    cost_after: failures
//	    on_failure: closed
//	  - name: api
//	    match: /api/
//	    headers: {X-Plan: pro}
//	    key: first(apikey(X-Api-Key), ip)
//	    limits: 10/s, 120/m
//	    tiers: {func: plan, pro: 100/s, free: 1/s}
//	    cost: exportCost
//	    dry_run: true
//	    lease: 100ms
//
// Requests that no rule of the file applies to, and keys with limits of their own:
//
//	skip: {addresses: [10.0.0.0/8], routes: [/healthz], preflight: true}
//	rules:
//	  - name: plan
//	    key: first(user, ip)
//	    limits: 10000/month;tz=Europe/Berlin
//	    overrides:
//	      "user:42": 100000/month
//	      "203.0.113.0/24": 0/s
//
// A rule has the fields of [core.Rule]:
//
//   - name: default is "default".
//   - match: patterns of http.ServeMux (Rule.Routes), or names of Funcs.Matches, which narrow further. Default: every request.
//     For a route of echo that ends in a parameter, such as /items/:id, write /items/{id...}: the parameter matches slashes too.
//   - headers: header fields and the values that they must have. Clients can send any value, so use fields that a gateway sets.
//   - key: ip, bearer, basic (spellings of a name as one, see keyfunc.BasicUser), method, pattern, apikey(HEADER), header(HEADER), cookie(NAME), const(TEXT), first(KEY, ..),
//     join(KEY, ..) or a name of Funcs.Keys.
//   - limits: as [core.ParseLimits] reads them.
//   - tiers: func is a name of Funcs.Tiers, which returns the tier of a request; all others are limits of tiers.
//   - overrides: the limits of single keys (Rule.Override), such as "user:42" or "ip:203.0.113.9" or, if the key is ip, of networks. An exact
//     key wins, then the longest prefix. A file may have 100,000.
//   - cost: a number or a name of Funcs.Costs.
//   - cost_after: failures (only failed requests count) or a name of Funcs.CostsAfter.
//   - dry_run: true or false.
//   - on_failure: local, open or closed.
//   - lease: a time from 1ms to 10s, such as 100ms.
//   - max_wait: a time up to 1h, such as 5s: a request that does not fit now waits for its turn instead of being denied.
//
// The program supplies the names under funcs. A name that Funcs lacks is a mistake, so a misspelling is found when the file
// is loaded. Anchors, aliases and merge keys work. Top-level fields whose names begin with "x-" are ignored.
// The command spillgate checks a file without the program (check), says which rules apply to a request (explain) and prints a
// JSON Schema for editors (schema).
//
// A file is a regular file of at most 16 MiB, and of 1 MiB without long overrides that have one plain entry in each line; anything else, such as a named pipe, is an error. A file that would take long to read is
// rejected, such as one with more than 200,000 words or 20,000 patterns.
// An error has the first 100 mistakes and says how many more there are.
package rulefile
