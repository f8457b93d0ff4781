package schemas

import (
	"errors"
	"math"
	"strconv"
)

// AutoInt is an option that is "auto", which is 0, or a whole number of 1 or more.
type AutoInt int

// UnmarshalText takes "auto" or the number. The error says what is wanted.
func (a *AutoInt) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*a = 0
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > math.MaxInt32 {
		return errors.New("auto or a whole number of 1 or more")
	}
	*a = AutoInt(n)
	return nil
}

// MarshalJSON writes "auto" or the number.
func (a AutoInt) MarshalJSON() ([]byte, error) {
	if a == 0 {
		return []byte(`"auto"`), nil
	}
	return strconv.AppendInt(nil, int64(a), 10), nil
}
