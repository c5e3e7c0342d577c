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
//	proxies: {trusted: [10.0.0.0/24], header: X-Forwarded-For}
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
// A file can also skip requests, and give single keys their own limits:
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
// No rule of the file applies to a request to skip:
//
//   - addresses: networks. The address is the one that key ip means. Without proxies, a request with a header field that
//     only proxies send is not skipped, because its address is the proxy's; the limiter logs that once.
//   - routes: patterns without a host. A request is skipped only if every way in which a router may read its path matches
//     a pattern exactly: "/healthz" skips neither "/healthz/" nor "/x/../healthz", and "/static/" skips neither "/static"
//     nor "/static/", which a router may take for "/static". A path with a backslash, a semicolon, a control character or
//     a % that was escaped is never skipped.
//   - preflight: true skips CORS preflights. Any client can send OPTIONS with their two headers, so a handler for all
//     methods is then open to it, without a limit. Set it only if a CORS middleware behind the limiter answers
//     preflights: see core.Preflight.
//
// A rule has the fields of [core.Rule]:
//
//   - name: default is "default".
//   - match: patterns of http.ServeMux (Rule.Routes), and names of Funcs.Matches, which must all report true. Default:
//     every request. For a route of echo that ends in a parameter, such as /items/:id, write /items/{id...}, because
//     the parameter matches slashes too.
//   - headers: header fields and their required values. Clients can send any value, so use fields that a gateway sets.
//   - key: ip, bearer, basic (see keyfunc.BasicUser), method, pattern, apikey(HEADER), header(HEADER), cookie(NAME),
//     const(TEXT), first(KEY, ..), join(KEY, ..) or a name of Funcs.Keys.
//   - limits: as [core.ParseLimits] reads them.
//   - tiers: func is a name of Funcs.Tiers, a function that returns the tier of a request. All other fields are tiers
//     with their limits.
//   - overrides: the limits of single keys (Rule.Override), such as "user:42" or "ip:203.0.113.9", and of networks, if
//     the key is ip. An exact key wins, then the longest prefix. A file may have 100,000 overrides or more. The key of a
//     6to4, Teredo or NAT64 address is the public IPv4 address in it, so name that one.
//   - cost: a number or a name of Funcs.Costs.
//   - cost_after: failures (only failed requests count) or a name of Funcs.CostsAfter.
//   - dry_run: true or false.
//   - on_failure: local, open or closed.
//   - lease: a time from 1ms to 10s, such as 100ms.
//   - max_wait: a time up to 1h, such as 5s. A request that does not fit now waits for its turn instead of being
//     denied.
//
// The program supplies the functions whose names are under funcs. A name that Funcs lacks is a mistake, so Load finds
// misspellings. Anchors, aliases and merge keys work. Fields whose names begin with "x-" are ignored, except under
// headers, tiers and overrides. The command spillgate checks a file without the program (check), says which rules apply
// to a request (explain) and prints a JSON Schema for editors (schema).
//
// A file must be a regular file, not a named pipe, for example. It has at most 16 MiB in all. It has at most 1 MiB
// without its long overrides: 200 entries or more, one per line, each a plain text and not an alias. Load rejects files
// that would take long to read, such as a file with more than 200,000 words or 20,000 patterns. An error lists the first
// 100 mistakes and the number of the others.
package rulefile
