// Package transforms is Beam's room: one PTransform for each verb of a job (read, key, bucket, a stage,
// publish), to be put together by pipelines or by a user's own pipeline.
//
// A DoFn travels as JSON and is rebuilt in a worker, so it carries only the job's specification; what is
// heavy (models, devices, the output) is an engine.Engine, made once per process and found by that
// specification. That registry is the one global of the house. Beam types are registered in register.go
// and nowhere else; closures, state, timers and Teardown are not used (they misbehave on some runner).
// To add a transform, write one file with its function and DoFn and register the DoFn.
package transforms
