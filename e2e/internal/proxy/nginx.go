package proxy

import "strings"

// Nginx is what one nginx does.
type Nginx struct {
	Listen   string // a loopback address without a port, such as "127.0.0.1" or "[::1]", or "unix:" and a path
	Upstream string // where it passes requests on: host and port, or "unix:" and a path
	Bind     string // the address that the upstream sees as its peer; empty for the default
	Mute     bool   // it says nothing of the client, and passes on what the client said
	GRPC     bool   // it passes on calls of gRPC, over unencrypted HTTP/2
}

// nginxConfig makes a proxy of one server, with all its files in PREFIX.
const nginxConfig = `
daemon off;
master_process off;
pid PREFIX/nginx.pid;
error_log PREFIX/error.log;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path PREFIX/body;
	proxy_temp_path PREFIX/proxy;
	fastcgi_temp_path PREFIX/fastcgi;
	uwsgi_temp_path PREFIX/uwsgi;
	scgi_temp_path PREFIX/scgi;
	map $remote_addr $node {
		~^[0-9.]+$        "for=$remote_addr";
		~^[0-9A-Fa-f:.]+$ "for=\"[$remote_addr]\"";
		default           "for=unknown";
	}
	map $http_forwarded $forwarded {
		""      $node;
		default "$http_forwarded, $node";
	}
	server {
		listen LISTEN;
		location / {
			proxy_pass http://UPSTREAM;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			HEADERS
			BIND
		}
	}
}
`

// setHeaders sends the address of the client upstream in three headers at once, as the nginx documentation shows. A client on a
// Unix socket is "unix:" to nginx.
const setHeaders = `
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_set_header Forwarded $forwarded;
			proxy_set_header X-Real-IP $remote_addr;
`

func (p Nginx) listen() string { return p.Listen }

func (p Nginx) command(prefix, file, addr string) (string, []string, string) {
	bind, fields := "", setHeaders
	if p.Bind != "" {
		bind = "proxy_bind " + p.Bind + ";"
	}
	if p.Mute {
		fields = ""
	}
	config := nginxConfig
	if p.GRPC {
		config = strings.NewReplacer("listen LISTEN", "listen LISTEN http2", "proxy_pass http:", "grpc_pass grpc:", "proxy_http_version 1.1;", "",
			"proxy_set_header", "grpc_set_header").Replace(config)
		fields = strings.ReplaceAll(fields, "proxy_set_header", "grpc_set_header")
	}
	return "nginx", []string{"-p", prefix, "-c", file}, strings.NewReplacer(
		"PREFIX", prefix, "LISTEN", addr, "UPSTREAM", p.Upstream, "BIND", bind, "HEADERS", fields,
	).Replace(config)
}
