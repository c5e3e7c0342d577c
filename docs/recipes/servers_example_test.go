package recipes

import (
	"crypto/tls"

	"github.com/redis/go-redis/v9"
)

// byURL connects to one server: rediss:// means TLS, and the URL can have a user and a password.
func byURL(url string) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(url) // such as rediss://app:secret@redis.example.com:6379/0
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	return redis.NewClient(options), nil
}

// bySentinel connects to the master that the sentinels name, and follows a failover.
func bySentinel(master string, sentinels ...string) redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: master, SentinelAddrs: sentinels, ContextTimeoutEnabled: true})
}

// byElastiCache connects to ElastiCache or MemoryDB with cluster mode and encryption in transit. The endpoint is the
// configuration endpoint.
func byElastiCache(endpoint, user, token string) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:     []string{endpoint},
		Username:  user,
		Password:  token,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},

		ContextTimeoutEnabled: true,
	})
}
