package core

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// Go allocates objects of up to 448 bytes on a fast path, and the record also has room for the handler's request. The sizes are
// for 64-bit systems.
func TestRecordOfARequestIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(guarded{}); size > 448 {
		t.Errorf("the record of a request has %d bytes, %d of them for the request, want at most 448", size, unsafe.Sizeof(http.Request{}))
	}
	if size := unsafe.Sizeof(asked{}); size > 64 {
		t.Errorf("a claim has %d bytes, want at most 64", size)
	}
}

// requestFields are the fields of http.Request that the bytes of a request identify, and that a copy shares with it. Before you
// add a field here that a new version of Go has, look at what restore does to it. A field that must not be copied, such as a
// lock, needs a change there.
const requestFields = "Method URL Proto ProtoMajor ProtoMinor Header Body GetBody ContentLength TransferEncoding Close Host Form PostForm " +
	"MultipartForm Trailer RemoteAddr RequestURI TLS Cancel Response Pattern ctx pat matches otherValues"

func TestFieldsOfRequestsAreKnown(t *testing.T) {
	var names []string
	for f := range fieldsOf(reflect.TypeFor[http.Request]()) {
		names = append(names, f.Name)
		switch f.Type.Kind() {
		case reflect.String, reflect.Pointer, reflect.Int, reflect.Int64, reflect.Bool, reflect.Map, reflect.Slice, reflect.Interface, reflect.Func, reflect.Chan:
		default:
			t.Errorf("%s is a %v, which identical does not know", f.Name, f.Type)
		}
	}
	if got := strings.Join(names, " "); got != requestFields {
		t.Errorf("http.Request has the fields\n%s, want\n%s", got, requestFields)
	}
}

// fieldsOf yields the fields of a struct.
func fieldsOf(s reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range s.NumField() {
			if !yield(s.Field(i)) {
				return
			}
		}
	}
}

// changedRequest returns a copy of r in which one exported field has another value.
func changedRequest(r *http.Request, field string) *http.Request {
	own := r.WithContext(r.Context())
	v := reflect.ValueOf(own).Elem().FieldByName(field)
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Chan:
		v.Set(reflect.MakeChan(reflect.ChanOf(reflect.BothDir, v.Type().Elem()), 0).Convert(v.Type()))
	case reflect.Interface:
		v.Set(reflect.ValueOf(http.MaxBytesReader(nil, http.NoBody, 1)))
	}
	return own
}

// TestIdenticalSeesEachChange changes each field of a request, including the fields that only package http can change.
func TestIdenticalSeesEachChange(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/users/7", strings.NewReader("x"))
	for range 100 {
		if !identical(r, r.WithContext(r.Context())) {
			t.Fatal("a copy is not identical")
		}
	}
	for f := range fieldsOf(reflect.TypeFor[http.Request]()) {
		if f.IsExported() && identical(r, changedRequest(r, f.Name)) {
			t.Errorf("a request with another %s is identical", f.Name)
		}
	}
	set := r.WithContext(r.Context())
	if set.SetPathValue("id", "7"); identical(r, set) {
		t.Error("a request with a path value is identical")
	}
	routed := 0
	before := r
	for range 2 { // the second mux finds the same pattern and value in the request
		mux := http.NewServeMux()
		mux.HandleFunc("/users/{id}", func(_ http.ResponseWriter, own *http.Request) {
			routed++
			if identical(before, own) || own.PathValue("id") != "7" {
				t.Errorf("a request that mux %d has routed is identical", routed)
			}
			before = own
		})
		mux.ServeHTTP(httptest.NewRecorder(), before.WithContext(before.Context()))
	}
	if routed != 2 {
		t.Errorf("%d muxes have routed the request, want 2", routed)
	}
}
