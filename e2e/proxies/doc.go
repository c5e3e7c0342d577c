// Package proxies tests which key a request gets behind a real nginx, and behind several: no header that a client sends chooses the key or
// hides a credential.
package proxies
