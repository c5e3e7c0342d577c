// Package schema checks that the JSON schema of rules files accepts and rejects the same files as the parser does, by a JSON Schema library.
package schema
