package recipes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// TestConnections checks that a store decides through each client of servers_example_test.go.
func TestConnections(t *testing.T) {
	t.Run("URL", func(t *testing.T) {
		addr, roots := startTLS(t)
		client := must.Get(byURL("rediss://app:secret@" + addr + "/0"))(t)
		client.(*redis.Client).Options().TLSConfig.RootCAs = roots
		decides(t, client)
	})
	t.Run("Sentinel", func(t *testing.T) { decides(t, bySentinel(redistest.MasterName, redistest.StartSentinel(t).Addrs...)) })
	t.Run("ElastiCache", func(t *testing.T) {
		addr, roots := startTLS(t, "--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")
		client := byElastiCache(addr, "app", "secret").(*redis.ClusterClient)
		client.Options().TLSConfig.RootCAs = roots
		decides(t, client)
	})
}

// decides checks that a store admits two of three requests through client, and closes client.
func decides(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	defer client.Close()
	rule := core.PerHour(2).By(keyfunc.RemoteIP)
	rule.OnFailure = core.FailClosed
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithTimeout(time.Minute)))
	for i := range 3 {
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "default", Key: "ip:203.0.113.9"}))(t)
		expect.Equal(t, d.Allowed, i < 2, "request %d: allowed", i+1)
	}
}

// startTLS starts a server with TLS and a user app, who has the rights that redis.md lists. It returns the server's
// address for TLS, and the certificate to trust. A Cluster has one node.
func startTLS(t *testing.T, args ...string) (addr string, roots *x509.CertPool) {
	t.Helper()
	cert, key, roots := selfSigned(t)
	addr = redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	rights := "app on >secret ~spillgate:* +fcall +function|load +evalsha +eval +time +info +hget +hset +hdel +hkeys +pexpire +del " +
		"+cluster|slots +command +asking"
	server := redistest.Start(t, slices.Concat([]string{
		"--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no",
		"--user",
	}, strings.Fields(rights), args)...)
	admin := server.Client(t)
	if len(args) > 0 {
		must.Do(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
		redistest.Wait(t, "the slots to be served", func() bool { return admin.Get(t.Context(), "k").Err() == redis.Nil })
	}
	return addr, roots
}

// selfSigned writes a certificate for 127.0.0.1 and its key to files, and returns their paths and the certificate.
func selfSigned(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	roots = x509.NewCertPool()
	roots.AddCert(must.Get(x509.ParseCertificate(cert))(t))
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private), roots
}

// Two services with one prefix share limits, so they deny each other's clients. Services with different prefixes do not.
func TestServicesWithOnePrefixShareLimits(t *testing.T) {
	server := redistest.Start(t)
	rules := []core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(3)}, OnFailure: core.FailClosed}}
	attempt := 0
	redistest.Wait(t, "three decisions in time", func() bool { // on a busy machine the server may be late, and still charge
		attempt++
		for _, row := range []struct {
			service string
			allowed bool
		}{{"shop", true}, {"shop", false}, {"blog", true}} {
			l := must.Get(shared(rules, server.Addr, row.service))(t)
			d, err := l.Take(t.Context(), core.Claim{Rule: "api", Key: fmt.Sprint("user:", attempt), Cost: 3})
			if errors.Is(err, core.ErrUnavailable) || d.Degraded != nil {
				return false
			}
			expect.True(t, err == nil && d.Allowed == row.allowed, "%s: %+v, %v; want allowed %v", row.service, d, err, row.allowed)
		}
		return true
	})
}
