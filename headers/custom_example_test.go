package headers_test

import (
	"fmt"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

func ExampleCustom_Write() {
	write := headers.Custom{Prefix: "X-App", Reset: headers.DeltaSeconds}.Write
	h := make(http.Header)
	write(h, core.Decision{Allowed: true, Results: []core.Result{{Limit: core.PerMinute(60), Allowed: true, Remaining: 59}}})
	fmt.Println(h.Get("X-App-Limit"), h.Get("X-App-Remaining"), h.Get("X-App-Reset"))
	// Output: 60 59 0
}
