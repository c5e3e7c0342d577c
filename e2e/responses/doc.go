// Package responses tests limiters beside what else writes a response: a reverse proxy whose upstream has limits of its own,
// http.TimeoutHandler, WebSockets, handlers that read and write at the same time, and streams that last for minutes.
package responses
