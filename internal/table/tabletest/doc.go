// Package tabletest has tables for tests of the packages beside it.
package tabletest
