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
// another one all keys start anew. It is copied.
func WithKeySecret(secret []byte) Option {
	return func(c *config) {
		if len(secret) < minSecret {
			c.invalid("WithKeySecret: secret must have at least %d bytes, got %d", minSecret, len(secret))
		}
		c.Secret = append(make([]byte, 0, len(secret)), secret...)
	}
}

// WithDenyCache remembers up to n denied requests in this process and answers them without asking Redis again, so that
// a client that keeps calling costs no round trips. It only ever denies. A request is remembered with its costs and limits, until
// the first of its waits is over, but for no longer than 1s: that is how long a Reset or a Refund by another process may
// go unnoticed. Those of this store count at once. Peeks and dry runs are not remembered.
//
// The cache takes 24 bytes for each of n from the start, and about 450 more for a remembered request. Two keys may share a
// place, where the latest denial is remembered.
func WithDenyCache(n int) Option {
	return func(c *config) {
		if n < 1 {
			c.invalid("WithDenyCache: deny cache must have room for at least 1, got %d", n)
		}
		c.DenyCache = n
	}
}
