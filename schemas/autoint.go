package schemas

import "strconv"

// AutoInt is an option that is a whole number of 1 or more, or "auto", stored as 0.
type AutoInt int

// MarshalJSON writes "auto" or the number.
func (a AutoInt) MarshalJSON() ([]byte, error) {
	if a == 0 {
		return []byte(`"auto"`), nil
	}
	return strconv.AppendInt(nil, int64(a), 10), nil
}
