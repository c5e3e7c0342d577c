package core

import (
	"io"
	"net/http"
	"reflect"
	"slices"
)

// sameRequest reports whether two copies of a request, made by WithContext, still have the same fields, apart from their
// contexts. Maps, pointers and bodies are the same if they are the same object.
func sameRequest(a, b *http.Request) bool {
	return a.Pattern == b.Pattern && a.URL == b.URL && a.Method == b.Method && a.RequestURI == b.RequestURI &&
		a.Host == b.Host && a.RemoteAddr == b.RemoteAddr && a.Close == b.Close && a.ContentLength == b.ContentLength &&
		a.MultipartForm == b.MultipartForm && a.TLS == b.TLS && a.Response == b.Response && a.Cancel == b.Cancel &&
		(a.GetBody == nil) == (b.GetBody == nil) && sameBody(a.Body, b.Body) &&
		sameMap(a.Header, b.Header) && sameMap(a.Trailer, b.Trailer) && sameMap(a.Form, b.Form) && sameMap(a.PostForm, b.PostForm) &&
		a.Proto == b.Proto && a.ProtoMajor == b.ProtoMajor && a.ProtoMinor == b.ProtoMinor &&
		slices.Equal(a.TransferEncoding, b.TransferEncoding) && samePathValues(a, b)
}

func sameMap[M ~map[string][]string](a, b M) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// sameBody reports false for bodies of a type that cannot be compared.
func sameBody(a, b io.ReadCloser) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// otherValues is the field of http.Request where SetPathValue stores what is not in Pattern.
var otherValues, _ = reflect.TypeFor[http.Request]().FieldByName("otherValues")

func samePathValues(a, b *http.Request) bool {
	if otherValues.Type == nil || otherValues.Type.Kind() != reflect.Map {
		return true // this version of net/http keeps them elsewhere
	}
	i := otherValues.Index[0]
	return reflect.ValueOf(a).Elem().Field(i).Pointer() == reflect.ValueOf(b).Elem().Field(i).Pointer()
}
