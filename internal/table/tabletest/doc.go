// Package tabletest has tables for tests of the rooms beside it.
package tabletest
