//go:build !linux

package system

// Group is a control group with a bound on memory. This system has none.
type Group struct{}

// ParentGroup says that there is no control group in which this process may make others.
func ParentGroup() (string, error) { return "", errNoGroups }

// NewGroup says that there are no control groups.
func NewGroup(int64) (*Group, error) { return nil, errNoGroups }

// Add says that there is no group.
func (*Group) Add(int) error { return errNoGroups }

// Dir returns "".
func (*Group) Dir() string { return "" }

// Kills returns 0.
func (*Group) Kills() int64 { return 0 }

// CountsKills returns false.
func (*Group) CountsKills() bool { return false }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// GroupKills returns 0: this system does not count them.
func GroupKills() int64 { return 0 }
