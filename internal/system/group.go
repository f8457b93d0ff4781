package system

import "errors"

// errNoGroups is why a system has no control groups to make.
var errNoGroups = errors.New("this system has no control groups of version 2")
