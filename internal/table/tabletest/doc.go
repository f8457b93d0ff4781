// Package tabletest has helpers for tests of the packages of internal/table and of packages that read tables.
package tabletest
