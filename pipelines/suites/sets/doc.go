// Package sets contains only tests: sets of devices, on this host and on others. Results are equal on every set, and jobs survive failing ranks.
package sets
