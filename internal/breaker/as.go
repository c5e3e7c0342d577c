package breaker

// As returns the first error of type T in the tree of err, as errors.AsType of Go 1.26 does. errors.As needs reflection,
// which would make programs 20 KB larger.
func As[T error](err error) (_ T, found bool) {
	var none T
	for err != nil {
		if e, ok := err.(T); ok { //nolint:errorlint // As unwraps
			return e, true
		}
		if as, ok := err.(interface{ As(any) bool }); ok {
			if e := new(T); as.As(e) {
				return *e, true
			}
		}
		switch e := err.(type) { //nolint:errorlint // As unwraps
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if found, ok := As[T](err); ok {
					return found, true
				}
			}
			return none, false
		default:
			return none, false
		}
	}
	return none, false
}
