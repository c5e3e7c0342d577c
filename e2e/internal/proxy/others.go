package proxy

import "strings"

// HAProxy is an HAProxy that listens on 127.0.0.1. It passes calls on to a server, host and port, by unencrypted HTTP/2, and appends the
// address of the client to X-Forwarded-For.
type HAProxy string

const haproxyConfig = `
defaults
	mode http
	timeout connect 20s
	timeout client 1m
	timeout server 1m
	option forwardfor
listen calls
	bind LISTEN
	server app UPSTREAM proto h2
`

func (HAProxy) listen() string { return "127.0.0.1" }

func (p HAProxy) command(_, file, addr string) (string, []string, string) {
	return "haproxy", []string{"-db", "-f", file}, strings.NewReplacer("LISTEN", addr, "UPSTREAM", string(p)).Replace(haproxyConfig)
}

// Caddy is a Caddy that listens on 127.0.0.1. It passes calls on to a server, host and port, by unencrypted HTTP/2, and overwrites
// X-Forwarded-For.
type Caddy string

const caddyConfig = `
{
	admin off
	auto_https off
	servers {
		protocols h1 h2c
	}
}
http://LISTEN {
	reverse_proxy h2c://UPSTREAM
}
`

func (Caddy) listen() string { return "127.0.0.1" }

func (p Caddy) command(_, file, addr string) (string, []string, string) {
	config := strings.NewReplacer("LISTEN", addr, "UPSTREAM", string(p)).Replace(caddyConfig)
	return "caddy", []string{"run", "--adapter", "caddyfile", "--config", file}, config
}
