// Package mcp tests limited servers of the Model Context Protocol with the clients of the official SDKs for Go and TypeScript and with mcp-go.
package mcp
