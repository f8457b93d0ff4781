package fault

import "fmt"

// PanicText is what a failure says of a panic: nothing that another run would say differently, such as an
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
