// Package process starts and ends child processes: ffmpeg, ffprobe, and the programs of the stage exec. Hooks do not use it, because
// a hook may leave processes running in the background.
//
// A child is the leader of a process group. It is killed when its context ends, when this process ends (on Linux), and when it makes
// no progress for Command.Stall. When it ends, the rest of its group is killed. A child that writes output nobody reads does not
// block: Wait discards the output, and Stop kills the child.
//
// The package does not know what a child is for.
package process
