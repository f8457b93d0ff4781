package cluster

import "time"

// Bounds on what another process may cost this one.
const (
	minToken      = 16               // bytes of a token file, without white space at its ends
	maxToken      = 4096             // bytes
	maxRanks      = 4096             // of one group
	maxHead       = 1 << 20          // bytes of a message's head
	maxBody       = 1 << 31          // bytes of a message's body: the texts of the largest batch take 1.3e9
	maxCause      = 1 << 10          // bytes of the cause in an abort frame
	maxUnproven   = 256              // connections that have not proved yet that they know the token
	maxWaiting    = 1 << 12          // connections of ranks whose group has not been joined here yet
	dialTime      = 10 * time.Second // for a host to answer
	firstByteTime = 5 * time.Second  // for a connection to say anything
	crowdedTime   = 10 * time.Second // for one that has said something to prove itself while others want in
	crowdedPause  = 50 * time.Millisecond
	handshakeTime = time.Minute      // for a connection to prove itself, among hundreds while all cores compute
	beatEvery     = 2 * time.Second  // between heartbeats
	silence       = 20 * time.Second // after which a process that is called counts as stopped
	writeSize     = 1 << 18          // bytes that it has to take within that time
	waitingTime   = time.Minute      // for a connection to be asked for
	maxReasons    = 16               // kept of why groups are not linked
	abortTime     = time.Second      // to tell a peer why the group ends
	linkTime      = 30 * time.Second // for the devices of a group to find each other, inside the time for joining
)
