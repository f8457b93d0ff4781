// Package doctor looks at the machine that the program runs on: Collect gathers facts, Examine says what they
// mean for a job and what each missing piece costs. Examine is pure, so every machine can be a test.
//
// It leaves nothing behind, repairs nothing and opens no model. A thing more to look at is a field of Facts, a line of
// Collect and a function of Examine.
package doctor
