package core

import (
	"net/http"
	"reflect"
	"unsafe"
)

// sameRequest reports whether two copies of a request, made by WithContext, still have the same fields, apart from their
// contexts. It compares their memory: so it sees the fields that net/http does not export, such as path values, and maps
// are the same only if they are the same object.
func sameRequest(a, b *http.Request) bool {
	x, y := bytesOf(a), bytesOf(b)
	return string(x[:contextStart]) == string(y[:contextStart]) && string(x[contextEnd:]) == string(y[contextEnd:])
}

func bytesOf(r *http.Request) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

// contextStart and contextEnd are the offsets of the context in a request.
var contextStart, contextEnd = func() (start, end uintptr) {
	if f, ok := reflect.TypeFor[http.Request]().FieldByName("ctx"); ok {
		return f.Offset, f.Offset + f.Type.Size()
	}
	return 0, 0 // requests with different contexts differ
}()
