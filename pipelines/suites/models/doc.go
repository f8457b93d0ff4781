// Package models contains only tests: whole jobs of every model family, compared with numbers of the reference implementations.
package models
