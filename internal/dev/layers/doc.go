// Package layers has no code. Its tests check rules for all packages.
package layers
