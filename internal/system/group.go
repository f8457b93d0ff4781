package system

import "errors"

// errNoGroups is the error of a system that has no control groups of version 2.
var errNoGroups = errors.New("this system has no control groups of version 2")
