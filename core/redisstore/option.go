package redisstore

import "strings"

// minSecret is the length of the shortest secret that WithKeySecret accepts, in bytes. Whoever guesses a shorter secret
// can find the identities.
const minSecret = 16

// maxDenyCache is the size of the largest deny cache, whose slots take 256 MB.
const maxDenyCache = 1 << 24

// An Option changes how a Store works.
type Option func(*config)

// WithPrefix sets the prefix of all keys; the default is "spillgate". Stores with different prefixes share nothing.
// Give each service that uses the same Redis its own prefix; otherwise their rules of the same name share limits. A
// prefix is printable ASCII without spaces, braces or backslashes.
func WithPrefix(prefix string) Option {
	return func(c *config) {
		switch {
		case prefix == "":
			c.invalid("WithPrefix: prefix is empty; want the name of your service, or leave the option out")
		case strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`{}\`, r) }):
			c.invalid("WithPrefix: prefix %q must be printable ASCII without spaces, braces or backslashes", prefix)
		}
		c.Prefix = prefix
	}
}

// WithKeySecret stores, in place of identities, their HMAC-SHA-256 with secret, cut to 128 bits. Somebody who can read
// the keys then learns neither addresses nor names. The secret has at least 16 bytes. All processes that share a limit
// need the same secret; with a new secret, all counters restart. WithKeySecret copies the secret.
func WithKeySecret(secret []byte) Option {
	return func(c *config) {
		if len(secret) < minSecret {
			c.invalid("WithKeySecret: secret must have at least %d bytes, got %d", minSecret, len(secret))
		}
		c.Secret = append(make([]byte, 0, len(secret)), secret...)
	}
}

// WithDenyCache sets how many denied requests the store remembers in this process, at most 16,777,216; the default is 4,096,
// and 0 turns the cache off. The store denies a remembered request again without asking Redis, so a client that keeps calling costs
// no round trips. The cache never admits a request. It remembers a denial with the costs and limits of the request,
// until the shortest of the request's waits is over, and for at most 1s. A remembered denial ends when this store
// charges, refunds, bans or resets any key of the request, or grants requests to it. A Reset, a Refund or a Grant by
// another process may take up to 1s to be noticed. A request with a smaller MaxWait is denied by the same denial, with
// its own RetryAfter. The cache does not remember peeks, denials beside a dry run, and denials caused by requests in flight.
//
// The cache has n slots of 16 bytes, and takes about 600 bytes more for each denial of one limit that it remembers. Two
// keys may share a slot, which holds the latest denial.
func WithDenyCache(n int) Option {
	return func(c *config) {
		if n < 0 {
			c.invalid("WithDenyCache: size must not be negative, got %d; 0 turns the cache off", n)
		}
		if n > maxDenyCache {
			c.invalid("WithDenyCache: size must be at most %d, got %d", maxDenyCache, n)
		}
		c.DenyCache = n
	}
}
