// Package process starts child processes and ends them: ffmpeg, ffprobe, and the programs of the stage exec. A hook is none of them: what it
// leaves running in the background goes on.
//
// A child is the leader of a process group. It ends with its context, with this process (Linux), and when it makes no progress for
// Command.Stall; the rest of its group ends with it. Nobody waits for a child whose output nobody reads: Wait drains it, Stop kills.
//
// What may never enter: what a child is for.
package process
