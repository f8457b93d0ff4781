// Package gputest has machines for tests of what works with GPUs: eight A100 on an NVSwitch, four T4 that know
// nothing of each other, mixed and divided ones, and ways to make their devices ill. Only tests import it.
package gputest
