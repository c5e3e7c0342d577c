// Package mcplimit limits the calls to a server of the Model Context Protocol, made with the official Go SDK.
//
//	perTool := core.Rule{Name: "search", Key: mcplimit.User, Limits: core.MustParseLimits("10/1m"), Routes: []string{mcplimit.Route("tools/call", "search")}}
//	limiter := core.Must(core.New([]core.Rule{perTool}))
//	server.AddReceivingMiddleware(mcplimit.New(limiter))
//
// Rules see each call as a request of its own: "POST /tools/call/search", "POST /prompts/get/greet" or "POST /resources/read", with the
// header of the HTTP request, if any. "POST /tools/call/" is the pattern of all tools. Messages that open a connection, pings
// and notifications are never decided. To limit these by address, mount stdlib around the HTTP handler. No key func for addresses
// works here, because the SDK does not pass on the address.
//
// A denied call gets the JSON-RPC error -32029, whose data are {"retryAfterSeconds": 3, "rules": ["search"]}, without retryAfterSeconds
// if no retry will be admitted. A call without a key, or with a malformed one, gets -32602, and a call that could not be decided gets -32603.
//
// Since protocol version 2026-07-28, a client sends a call again with the input that the tool has asked for: that is another call.
//
// CostAfter gets status 200, 500 if the call fails or its result has IsError, or 499 if the client cancels it. A limit of AtOnce counts
// a call until its handler returns. The SDK ends the context of a canceled call, except on a stateless server: a notification in another
// HTTP request does not reach the call there. So a call goes on there after it has been canceled, unless the server sets the SDK's option
// PropagateRequestCancellation and the client uses protocol version 2026-07-28.
//
// Since protocol version 2026-07-28, a client that listens for changes has a call, "POST /subscriptions/listen", in flight for as long as
// it listens. Give a rule with AtOnce Routes such as "POST /tools/call/", so that listening clients take no place.
package mcplimit
