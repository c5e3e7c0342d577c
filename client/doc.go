// Package client makes HTTP clients obey the rate limits that servers announce. It uses the standard library only.
//
//	c := &http.Client{Transport: &client.Transport{MaxWait: time.Minute}}
//
// A Transport reads the rate limit fields of every response, and delays requests while a limit is used up, so that they
// are not denied. If a request is denied anyway, the Transport sends it again when the server has said to. It
// understands:
//
//   - Retry-After of 429, 403 and 503, in seconds or as an HTTP date (RFC 9110, section 10.2.3);
//   - X-RateLimit-Limit, -Remaining, -Reset and -Resource, where Reset may be an epoch, a number of seconds or a date, and
//     GitHub's secondary limits, https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api;
//   - RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-07 to -11;
//   - RateLimit-Limit, -Remaining and -Reset of its earlier revisions.
//
// # What a caller sees
//
// A request may take up to MaxWait longer. If it would have to wait longer, it fails at once with a *LimitedError. If
// it has already been sent and denied, the caller gets the denial as its response instead, with the body intact.
// http.Client wraps the error, so use errors.As. If http.Client.Timeout or a context deadline is shorter than MaxWait,
// it applies instead.
//
// After a 429, or a 403 with Retry-After or Remaining 0, the Transport sends the request again whatever its method,
// because the server has not served it. After a 503 with Retry-After, it does so only if the method is idempotent. The
// request must have no body, or have GetBody, which http.NewRequest sets for a bytes.Buffer, a bytes.Reader and a
// strings.Reader. The Transport does not send a request again after any other response or a network error.
//
// If a request ends without a response, because its context has ended for example, the Transport cannot know whether the
// server has counted it, and assumes that it has not. So after many such requests, others may be denied. The Transport
// sends these again, as above.
//
// # Whose limit it is
//
// Limits are kept per Transport.Key and, within a key, per X-RateLimit-Resource or policy name. The resource of a
// request is unknown before its response, so the Transport assumes the resource of the last request with the same
// method and first path segment. A limit that is used up stays closed until the instant that the server announced, even if
// responses in the meantime show only another limit. Use one Transport for all requests of a program to a server: two
// Transports share nothing.
//
// The first request of a key is sent alone; the others wait for its response headers, for ten seconds at most. If the
// server announces limits, the same applies to the first request of each method and first path segment.
//
// A response with a positive Age (RFC 9111, section 5.1) comes from a cache, and was made for another client. The
// Transport ignores its limits and its Retry-After, and returns the response even if it is a 429, because another
// attempt would get the same response.
//
// # Several processes
//
// Use Transport.Before and Transport.OnDenied to connect a Transport to a limit that several processes share: Before
// waits for that limit before each attempt, and OnDenied tells the other processes how long the server has asked to
// wait, at most an hour.
//
// # Bounds
//
// A Transport keeps at most 1,024 keys and, for each key, 512 routes and 32 limits. Beyond that, it forgets the least
// recently used limit, and the least recently used key or route of a sample. It hashes names of more than 128 bytes,
// also in LimitedError.Policy. So servers can neither fill its memory nor make its errors long.
package client
