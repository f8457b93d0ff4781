// Package stores contains only tests: jobs whose inputs and outputs are in buckets or on hosts that fail.
package stores
