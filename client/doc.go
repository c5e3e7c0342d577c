// Package client makes HTTP clients obey the rate limits that servers announce. It uses the standard library only.
//
//	c := &http.Client{Transport: &client.Transport{MaxWait: time.Minute}}
//
// A Transport reads the rate limit fields of every response and holds requests back while a limit is used up, so that
// they are not denied. A request that is denied anyway is sent again once the server admits it. It understands:
//
//   - Retry-After of 429, 403 and 503, in seconds or as an HTTP date (RFC 9110, section 10.2.3);
//   - X-RateLimit-Limit, -Remaining, -Reset and -Resource, where Reset may be an epoch, a number of seconds or a date, and
//     GitHub's secondary limits, https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api;
//   - RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-07 to -11;
//   - RateLimit-Limit, -Remaining and -Reset of its earlier revisions.
//
// # What a caller sees
//
// A request may take up to MaxWait longer. If it would have to wait longer than that and nothing was sent yet, it fails at
// once with a *LimitedError. If it was already sent and denied, the denial is the response, with its body intact.
// http.Client wraps the error, so use errors.As. If http.Client.Timeout or a context deadline is shorter than MaxWait, it
// applies instead.
//
// After a 429, or a 403 with Retry-After or Remaining 0, the request is sent again whatever its method, because it was not
// served. After a 503 with Retry-After it is sent again if its method is idempotent. The request must have no body, or
// GetBody, which http.NewRequest sets for a bytes.Buffer, a bytes.Reader and a strings.Reader. Nothing else is sent again:
// network errors are returned to the caller.
//
// # Whose limit it is
//
// Limits are kept per Transport.Key and, within a key, per X-RateLimit-Resource or policy name. The resource of a request
// is not known before its response, so the Transport assumes the one last seen for the method and first path segment. Use
// one Transport for all requests of a program to a server: two Transports do not know of each other.
//
// Before anything is known of a key, one request goes ahead and the others wait for its headers, for ten seconds at most. Where the
// server has limits, the same holds for each method and first path segment.
//
// A response with a positive Age (RFC 9111, section 5.1) comes from a cache that made it for another client. The Transport ignores its
// limits and its Retry-After, and returns it even if it is a 429: sending the request again would bring the same response.
//
// # Several processes
//
// Transport.Before and Transport.OnDenied connect a Transport to a limit that several processes share: Before waits for that limit
// before each attempt, and OnDenied tells the other processes what the server has said.
//
// # Bounds
//
// A Transport forgets the least recently used of 1,024 keys, and of 512 routes and 32 limits of a key. It keeps a hash of each name
// that is longer than 128 bytes, also in LimitedError.Policy, so servers can neither fill its memory nor make its errors long.
package client
