package schemas

import "strconv"

// AutoInt is an option that is "auto", which is 0, or a whole number of 1 or more.
type AutoInt int

// MarshalJSON writes "auto" or the number.
func (a AutoInt) MarshalJSON() ([]byte, error) {
	if a == 0 {
		return []byte(`"auto"`), nil
	}
	return strconv.AppendInt(nil, int64(a), 10), nil
}
