package redisstore

import "strings"

// minSecret is the shortest secret that WithKeySecret takes, in bytes. A shorter one could be guessed, and with it the
// identities.
const minSecret = 16

// An Option changes how a Store works.
type Option func(*config)

// WithPrefix lets all keys begin with prefix; the default is "spillgate". Stores with different prefixes share nothing; two services
// that share one Redis need a prefix each, or rules of one name share their limits.
// It is printable ASCII without spaces, braces or backslashes.
func WithPrefix(prefix string) Option {
	return func(c *config) {
		for i := range len(prefix) {
			if b := prefix[i]; b <= ' ' || b > '~' || strings.IndexByte(`{}\`, b) >= 0 {
				c.invalid("WithPrefix: prefix %q must be printable ASCII without spaces, braces or backslashes", prefix)
				return
			}
		}
		if prefix == "" {
			c.invalid("WithPrefix: prefix is empty; want the name of your service, or leave the option out")
		}
		c.Prefix = prefix
	}
}

// WithKeySecret stores, in place of identities, their HMAC-SHA-256 with secret, cut to 128 bits. A reader of the keys
// learns neither addresses nor names. All processes that share a limit need the same secret, of at least 16 bytes; with
// another one all keys start over. It is copied.
func WithKeySecret(secret []byte) Option {
	return func(c *config) {
		if len(secret) < minSecret {
			c.invalid("WithKeySecret: secret must have at least %d bytes, got %d", minSecret, len(secret))
		}
		c.Secret = append(make([]byte, 0, len(secret)), secret...)
	}
}

// defaultDenyCache is how many denials a Store without WithDenyCache remembers.
const defaultDenyCache = 4096

// WithDenyCache sets how many denied requests the store remembers in this process; the default is 4,096, and 0 turns the cache
// off. The store denies a remembered request again without asking Redis, so a client that keeps calling costs no round trips. The
// cache never admits a request. It remembers a denial together with the costs and limits of the request, until the first of its
// waits is over, but for at most 1s: a Reset or a Refund by another process may go unnoticed for that long. A Reset or a Refund of
// this store takes effect at once. The cache does not remember peeks, dry runs, and denials caused by requests in flight.
//
// The cache takes 24 bytes for each of n from the start, and about 450 more for each denial that it remembers. Two keys may share
// a slot, which holds the latest denial.
func WithDenyCache(n int) Option {
	return func(c *config) {
		if n < 0 {
			c.invalid("WithDenyCache: size must not be negative, got %d; 0 turns the cache off", n)
		}
		c.DenyCache = n
	}
}
