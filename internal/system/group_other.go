//go:build !linux

package system

// Group is a control group. This system has none.
type Group struct{}

// ParentGroup returns an error: this system has no control groups.
func ParentGroup() (string, error) { return "", errNoGroups }

// NewGroup returns an error: this system has no control groups.
func NewGroup(int64) (*Group, error) { return nil, errNoGroups }

// Add returns an error: this system has no control groups.
func (*Group) Add(int) error { return errNoGroups }

// Dir returns "".
func (*Group) Dir() string { return "" }

// Kills returns 0.
func (*Group) Kills() int64 { return 0 }

// CountsKills returns false.
func (*Group) CountsKills() bool { return false }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// GroupKills returns 0: this system does not count kills.
func GroupKills() int64 { return 0 }
