// Package sets holds no code: its tests are about sets of devices, here and on other hosts: the same bytes, and what follows when a rank fails.
package sets
