// Package clients tests how HTTP clients react to a limited server: browsers through CORS, go-github, Octokit, go-retryablehttp and parsers
// of Structured Fields, each as it is. It also runs clients over client.Transport, with the recipes of docs/recipes.md, and checks that
// they wait instead of being denied.
package clients
