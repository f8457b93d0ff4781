package fault

import "fmt"

// PanicText returns the text of a panic for a failure. It leaves out everything that would differ in another run, such as an
// address.
func PanicText(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprintf("a value of type %T", v)
}
