// Package disconnects tests clients that send a request and disconnect before the response: they are not admitted more often than their
// limit allows, by any framework, over HTTP/1.1 and HTTP/2, and a rule that counts failures charges their requests.
package disconnects
