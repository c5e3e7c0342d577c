// Package grpclimit limits calls to a server of google.golang.org/grpc.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	s := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter)), grpc.ChainStreamInterceptor(grpclimit.Stream(limiter)))
//
// Rules see a call as the HTTP request that it is: a POST to "/pkg.Service/Method" whose Host is the authority, whose Header is
// the metadata, and whose RemoteAddr and TLS are the peer's. So key funcs, Routes such as "POST /auth.v1.Auth/Login", tiers and
// files with rules work as for other adapters, and a service shares its limits between HTTP and gRPC. The Body is empty: use
// MessageOf. The route pattern is the path.
//
// A denied call ends with RESOURCE_EXHAUSTED, a google.rpc.RetryInfo and a google.rpc.QuotaFailure. Its trailer has the rate
// limit fields and grpc-retry-pushback-ms, which the retries of clients obey. A call without a key ends with
// INVALID_ARGUMENT. A call that could not be decided ends with UNAVAILABLE if the store is down and a rule fails closed, or the
// fallback is down too, or if the call is canceled while it waits for its turn, and with INTERNAL otherwise. No response
// contains the key or the text of an error.
//
// An admitted call carries the decision in its context: see core.FromContext and core.SetCost. A stream is charged when it
// opens, and WithMessages also limits its messages. What a rule with CostAfter or a limit of requests in flight holds is
// settled when the handler has returned. Outcome.Status is the HTTP status of the code with which the handler has ended, as
// the documentation of google.rpc.Code says, and Outcome.Bytes is the size of the messages before compression. Of a message
// that is not protobuf, only the five bytes in front of it count.
//
// Mount interceptors that verify the user, or that turn errors into statuses, so that the limiter sees their results: a
// verified user further out, the final status further in. An interceptor further out that sends initial metadata makes
// clients give up instead of retrying. Calls of methods that the server does not know reach no interceptor.
package grpclimit
