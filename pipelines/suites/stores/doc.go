// Package stores holds no code: its tests are about jobs whose inputs and outputs lie in buckets and on hosts that fail.
package stores
