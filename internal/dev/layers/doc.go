// Package layers holds no code: its tests check rules that all packages keep.
package layers
