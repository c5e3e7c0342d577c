package rulefile

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (draft 2020-12) of the files that Parse reads, for editors. It describes the fields and
// the notation of their values. It cannot detect conflicting patterns, unknown names or periods out of range, nor YAML's other
// notations of numbers and booleans, such as 0x10 and True, which Parse rejects.
func Schema() []byte { return append([]byte(nil), schema...) }
