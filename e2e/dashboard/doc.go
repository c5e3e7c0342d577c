// Package dashboard tests the dashboard's page, and the page that a replay writes, in a real Chromium: what they show, that all routers can
// serve the dashboard, and that the page is accessible.
package dashboard
