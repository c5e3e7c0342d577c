package rulefile

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (draft 2020-12) of the files that Parse reads, for editors. It knows the fields and the
// notation of their values, but not whether patterns cross, names exist or periods make sense.
func Schema() []byte { return append([]byte(nil), schema...) }
